"""A folder of runs becomes a table, figures and a curve. The runs are made up."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pytest
from matplotlib.image import imread

from made_up import make_run, record_training
from reported import OPTIONS, VERBFINAL, WAIT_K, boxes, make_runs, names_drawn, table_rows
from simulmt.analysis.figures import panels, style
from simulmt.analysis.figures.curve import draw_curve
from simulmt.analysis.report import report
from simulmt.analysis.runs.found import find_runs
from simulmt.analysis.tables.names import run_names
from simulmt.analysis.tables.points import Point, Series, curve_series
from simulmt.programs import report as program
from small_runs import configuration


def names_and_lines(folder: Path) -> tuple[list[str], list[str]]:
    runs = find_runs(folder).runs
    return [*run_names(runs).values()], [series.name for series in curve_series(runs, "DAL")]


def test_table_by_mechanism_then_latency_with_the_oracle(tmp_path, capsys):
    report({"runs": make_runs(tmp_path, *VERBFINAL), **OPTIONS})
    lines = capsys.readouterr().out.splitlines()
    rows = [line.split("│")[1].strip() for line in lines if line.startswith("│")]
    mma_il = [f"MMA-IL lambda={weight}" for weight in (0.4, 0.2, 0.1, 0)]
    assert rows == [*mma_il, "offline", *(f"wait-k k={k}" for k in (1, 3, 5, 7)), "oracle"]


def test_csv_has_every_figure_of_every_run(tmp_path):
    make_run(tmp_path / "a" / "b", "mma_c", {"lambda": 0.2, "lambda_var": 0.1, "seed": 7}, 30.5, 4)
    record_training(tmp_path / "a" / "b", 1234, 5678.9)
    make_run(tmp_path / "c", *WAIT_K[1])
    report({"runs": str(tmp_path), **OPTIONS})
    with (tmp_path / "curves.csv").open(encoding="utf-8", newline="") as file:
        first, second = csv.DictReader(file)
    same = {"model": "transformer", "data": "verbfinal", "signature": "tok:13a"}
    expected = {"folder": "a/b", "mechanism": "mma_c", "k": "", "chunk": "8", "lambda": "0.2"}
    expected |= {"noise": "3.0", "mass_preservation": "True", "score": "usual"}
    expected |= {"emission_rate": "", "window": ""}
    expected |= {"lambda_var": "0.1", "seed": "7", "BLEU": "30.5", "chrF": "15.25", **same}
    for name in ("AL", "AL_ref", "LAAL", "DAL", "AP", "CW"):
        expected[f"{name}_word"] = "4.0" if name == "DAL" else "2.0"
        expected[f"{name}_subword"] = "6.0" if name == "DAL" else "3.0"
    expected |= {"parameters": "1234", "updates": "20", "decoding": "", "policy": ""}
    expected |= {"init_sha256": ""}
    expected |= {"BLEU_low": "", "BLEU_high": "", "resampling": "", "offline_BLEU": ""}
    expected |= {"front_DAL": "False"}
    assert expected.items() <= first.items()
    choices = set(first) - set(expected)
    keys = "schedule span heads energy_bias energies temperature threshold"
    assert choices == {f"mechanism.{key}" for key in keys.split()}
    assert (second["folder"], second["k"], second["parameters"]) == ("c", "3", "1000")
    assert second["front_DAL"] == "True"  # 75 at 3.9 beats 30.5 at 4
    with (tmp_path / "cost.csv").open(encoding="utf-8", newline="") as file:
        first, second = csv.DictReader(file)
    assert (first["folder"], first["training_tokens_per_s"]) == ("a/b", "5678.9")
    assert second["training_tokens_per_s"] == ""


def make_models(folder: Path) -> Path:
    """Two mechanisms on two models, of which one training is on record."""
    for model, dal in (("transformer", 4), ("luong", 5)):
        about = {"model.name": model, f"model.only_{model}": 1}
        make_run(folder / f"{model}-soft", "soft", about, 30, 9)
        for weight in (0.1, 0.2):
            place = folder / f"{model}-{weight}"
            make_run(place, "mma_h", {**about, "lambda": weight}, 30, dal - weight)
    record_training(folder / "luong-0.1", 1234567, 5678.9)
    return folder


def test_several_models_have_names_and_lines_of_their_own(tmp_path, capsys):
    report({"runs": make_models(tmp_path), **OPTIONS})
    names_shown = [row[0] for row in table_rows(capsys.readouterr().out)]
    mma_h = [f"MMA-H {m} lambda={n}" for m in ("luong", "transformer") for n in (0.2, 0.1)]
    assert names_shown == [*mma_h, "offline luong", "offline transformer", "oracle"]
    names, lines = names_and_lines(tmp_path)
    assert len({*names}) == 6
    assert names[0] == "mma_h luong lambda=0.2"
    assert lines == ["mma_h luong", "mma_h transformer", "soft luong", "soft transformer"]


@pytest.mark.parametrize(("latency", "unit"), [("DAL", "word"), ("AL", "subword")])
def test_the_picture_says_what_it_shows(latency, unit, tmp_path, drawn):
    options = {**OPTIONS, "latency": latency, "unit": unit}
    report({"runs": make_runs(tmp_path, *VERBFINAL), **options})
    (axes,) = drawn[0].axes
    assert axes.get_ylabel() == "BLEU"
    assert latency in axes.get_xlabel()
    assert f"source {unit}s" in axes.get_xlabel()
    written = [text.get_text() for text in axes.texts]
    assert {"k=1", "k=7", "λ=0", "λ=0.4"} <= {*written}
    assert ("oracle" in written) == (unit == "word")
    (legend,) = drawn[0].legends
    assert [t.get_text() for t in legend.get_texts()] == [
        "MMA-IL", "offline (ceiling)", "wait-k", "Pareto front",
    ]  # fmt: skip


@pytest.mark.parametrize("crowd", [0.25, 4.0])
def test_no_label_hides_another_or_a_point(crowd, tmp_path, drawn):
    lines = [
        Series("mma_il", [Point(5 + i * crowd, 38 - 6 * i, f"λ={i}") for i in (1, 2, 3)]),
        Series("milk", [Point(5 + i * crowd, 39 - 6 * i, f"λ={i}") for i in (1, 2, 3)]),
        Series("soft", [Point(20, 40)], offline=True),
        Series("wait_k", [Point(5 + k * crowd, 20 + 6 * k, f"k={k}") for k in (1, 2, 3)]),
    ]
    panels.save(draw_curve(lines, "DAL", oracle=6), [tmp_path / "a.png"])
    (axes,) = drawn[0].axes
    assert len(axes.texts) == 3 * 3 + 1
    found = boxes(axes)
    for i, one in enumerate(found):
        for other in found[:i]:
            shared = np.minimum(one[2:], other[2:]) - np.maximum(one[:2], other[:2])
            assert min(shared) < 2, (one, other)
    height, width, _ = imread(tmp_path / "a.png").shape
    for left, bottom, right, top in found:
        assert min(left, bottom, width - right, height - top) >= 0


def test_mechanisms_differ_without_colour_and_offline_is_a_ceiling(tmp_path, drawn):
    names = [f"m{i}" for i in range(8)]
    lines = [Series(n, [Point(i, i), Point(i + 1, i + 3)]) for i, n in enumerate(names)]
    lines.append(Series("soft", [Point(20, 40)], offline=True))
    panels.save(draw_curve(lines, "DAL", oracle=2.5), [tmp_path / "a.svg"])
    (axes,) = drawn[0].axes
    shown = {str(line.get_label()): line for line in axes.lines}
    assert len({shown[name].get_marker() for name in names}) == 8
    assert len({shown[name].get_color() for name in names}) == 8
    assert len({*style.DASHES}) == 8
    assert [*shown["soft (ceiling)"].get_xydata()[0]] == [20, 40]
    level = [line for line in axes.lines if [*line.get_ydata()] == [40, 40]]
    upright = [line for line in axes.lines if [*line.get_xdata()] == [2.5, 2.5]]
    assert len(level) == len(upright) == 1
    assert level[0].is_dashed()


def test_the_same_runs_give_the_same_bytes(tmp_path):
    files = [make_runs(tmp_path / name / "runs", *VERBFINAL) for name in ("a", "b")]
    for folder in files:
        report({"runs": folder, **OPTIONS})
    for name in ("curve-DAL.png", "curve-DAL.svg", "curves.csv", "report.html"):
        first, second = ((folder / name).read_bytes() for folder in files)
        assert first == second


def test_runs_that_share_a_name_get_what_tells_them_apart(tmp_path):
    for seed in (1, 2):
        make_run(tmp_path / f"seed{seed}", "wait_k", {"mechanism.k": 3, "seed": seed}, 30, seed)
    make_run(tmp_path / "k1", *WAIT_K[0])
    for name, same in (("again", 1), ("soft", 2)):
        keys = ("cache", "ckpt_path", "trainer.log_every", "sweep.retries", "logger.kind")
        make_run(tmp_path / name, "soft", dict.fromkeys(keys, same), 30, 9)
    names, lines = names_and_lines(tmp_path)
    expected = ["soft (again)", "soft (soft)"]
    assert names == [*expected, "wait_k k=3 seed=1", "wait_k k=3 seed=2", "wait_k k=1"]
    assert lines == ["soft", "wait_k"]


def test_the_program(tmp_path, capsys):
    make_runs(tmp_path / "some runs", *VERBFINAL[:3])
    runs = f"runs='{tmp_path / 'some runs'}'"
    program.report(configuration("report", runs, "unit=subword", "published=milk/table5"))
    assert "wait-k k=3" in capsys.readouterr().out
    curves = [f"curve-{name}.{kind}" for name in ("AL", "AP", "DAL") for kind in ("png", "svg")]
    written = sorted(path.name for path in (tmp_path / "some runs").iterdir() if path.is_file())
    assert written == ["cost.csv", *curves, "curves.csv", "report.html"]  # runs without a log
    assert [path.name for path in tmp_path.iterdir()] == ["some runs"]


def test_a_range_of_quality_shows_what_is_in_it():
    series = [
        Series("near", [Point(4.0, 98.0, "λ=1"), Point(6.0, 99.0, "λ=0")]),
        Series("both", [Point(2.0, 50.0, "k=1"), Point(5.0, 97.0, "k=9")]),
        Series("far", [Point(1.0, 40.0, "c=1"), Point(9.0, 60.0, "c=2")]),
        Series("soft", [Point(20.0, 99.5)], offline=True),
    ]
    figure = draw_curve(series, "DAL", shown=(95.0, 101.0))
    (axes,) = figure.axes
    assert axes.get_ylim() == (95.0, 101.0)
    least, most = axes.get_xlim()
    assert 3.5 < least < 4.0  # as wide as its simultaneous points need
    assert 6.0 < most < 6.5
    assert [name.split()[0] for name in names_drawn(figure)] == ["near", "both", "soft", "Pareto"]
    written = {text.get_text() for text in axes.texts}
    assert {"λ=1", "λ=0", "k=9"} <= written
    assert not {"k=1", "c=1", "c=2"} & written
