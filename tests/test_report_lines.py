"""Which runs share a line, what a line is called, and how the picture shows it. Made-up runs."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import yaml
from matplotlib.image import imread

from made_up import evaluate_run, make_decoded_run, make_instances, make_run, make_scores
from reported import OPTIONS, QUICK, ROOT, SOFT, VERBFINAL, Page, boxes, make_runs, rows, table_rows
from simulmt.analysis.curve import draw_curve
from simulmt.analysis.points import Point, Series, curve_series, front_points
from simulmt.analysis.report import report
from simulmt.analysis.runs import find_runs
from simulmt.analysis.style import save
from simulmt.analysis.titles import TITLES
from simulmt.decoding.instance import write_instances
from simulmt.errors import UserError
from simulmt.scoring.score import score


def lines_of(folder: Path) -> dict[str, list[float]]:
    """The latencies of each line."""
    series = curve_series(find_runs(folder).runs, "DAL")
    return {line.name: [point.latency for point in line.points] for line in series}


def make_sweep(folder: Path, weights=(0.1, 0.2), **options) -> None:
    for weight in weights:
        chosen = {key.replace("__", "."): value for key, value in options.items()}
        place = folder / f"{weight}-{len(list(folder.glob('*')))}"
        make_run(place, "mma_il", {"lambda": weight, **chosen}, 30, 5 - weight)


@pytest.mark.parametrize(
    ("key", "values", "names"),
    [
        ("init_from", (None, "runs/a/pre/best.ckpt"), ("null", "best.ckpt")),
        ("init_from", ("runs/a/best.ckpt", "runs/b/best.ckpt"), ("a", "b")),
        ("objective.warmup", (10, 20), ("10", "20")),
        ("optim.lr", (0.1, 0.2), ("0.1", "0.2")),
        ("data.train", (1000, 2000), ("1000", "2000")),
        ("trainer.max_updates", (400, 800), ("400", "800")),
    ],
)
def test_trainings_that_differ_share_no_line(key, values, names, tmp_path):
    for value in values:
        make_sweep(tmp_path, **{key.replace(".", "__"): value})
    short = key.removeprefix("trainer.")
    assert lines_of(tmp_path) == {f"mma_il {short}={name}": [4.8, 4.9] for name in names}


@pytest.mark.parametrize(
    "key",
    ["name", "cache", "logger.kind", "trainer.progress", "trainer.threads", "trainer.devices",
     "trainer.accelerator", "data.root"],
)  # fmt: skip
def test_what_does_not_affect_the_training_separates_no_lines(key, tmp_path):
    for value in (1, 2):
        make_run(tmp_path / f"{value}", "mma_il", {"lambda": 0.1 * value, key: value}, 30, 4)
    assert [*lines_of(tmp_path)] == ["mma_il"]


def test_seeds_on_other_machines_are_one_point(tmp_path):
    for seed in (1, 2):
        options = {"seed": seed, "trainer.threads": seed, "trainer.accelerator": "cpu" * seed}
        make_run(tmp_path / f"{seed}", "wait_k", options, 30 + seed, 4)
    assert lines_of(tmp_path) == {"wait_k": [4]}


def test_a_label_names_the_fewest_options(tmp_path):
    for updates in (400, 800):
        make_sweep(tmp_path, objective__warmup=updates // 2, trainer__max_updates=updates,
                   trainer__validate_every=updates // 4)  # fmt: skip
    assert [*lines_of(tmp_path)] == ["mma_il max_updates=400", "mma_il max_updates=800"]


def names_drawn(figure) -> list[str]:
    (legend,) = figure.legends
    return [text.get_text() for text in legend.get_texts()]


def test_the_user_chooses_what_separates_lines(tmp_path, drawn):
    for updates in (400, 800):
        make_sweep(tmp_path, optim__lr=0.1 * updates, trainer__max_updates=updates)
    soft = make_run(tmp_path / "soft", "soft", {"trainer.max_updates": 400}, 60, 9)
    evaluate_run(soft, "p", make_scores(40, 4), policy={"name": "hold_n", "n": 2})
    for line, names in {
        "mechanism.name": ["MMA-IL", "offline (ceiling)", "offline + hold-n"],
        "trainer.max_updates": [
            "max_updates=400", "max_updates=400 + hold-n",
            "max_updates=400, whole sentence (ceiling)", "max_updates=800",
        ],
    }.items():  # fmt: skip
        report({"runs": tmp_path, **QUICK, "line": line})
        assert names_drawn(drawn[0])[: len(names)] == names
        drawn.clear()
    both = ["mechanism.name", "optim.lr"]
    report({"runs": tmp_path, **QUICK, "line": both})
    assert names_drawn(drawn[0])[:2] == ["MMA-IL optim.lr=40.0", "MMA-IL optim.lr=80.0"]


@pytest.mark.parametrize("line", ["seed", "mechanism.nothing", 3, [["lambda"]]])
def test_an_option_that_separates_no_lines_is_refused(line, tmp_path):
    make_sweep(tmp_path, trainer__max_updates=4)
    make_sweep(tmp_path, trainer__max_updates=8)
    with pytest.raises(UserError, match=r"line has .*: .* differ: trainer.max_updates"):
        report({"runs": tmp_path, **QUICK, "line": line})


def test_names_of_the_field_are_for_people_and_keys_for_programs(tmp_path, capsys, drawn):
    for k in (1, 3):
        make_decoded_run(tmp_path / f"{k}", "wait_k", {"mechanism.k": k}, make_instances(0.3, k))
    make_decoded_run(tmp_path / "m", "mma_il", {"lambda": 0.2}, make_instances(0.1, 1))
    report({"runs": tmp_path, **QUICK})
    assert names_drawn(drawn[0])[:2] == ["MMA-IL", "wait-k"]
    names = [row[0] for row in table_rows(capsys.readouterr().out)]
    assert names == ["MMA-IL lambda=0.2", "wait-k k=1", "wait-k k=3"]
    page = Page((tmp_path / "report.html").read_text(encoding="utf-8"))
    assert all(name in page.text for name in names)
    assert "wait_k k=1" not in page.text
    assert {row["mechanism"] for row in rows(tmp_path / "curves.csv")} == {"mma_il", "wait_k"}
    (pair,) = rows(tmp_path / "significance.csv")
    assert (pair["one"], pair["other"]) == ("mma_il lambda=0.2", "wait_k k=1")


def test_every_mechanism_and_policy_has_a_name():
    for group in ("mechanism", "policy"):
        files = {path.stem for path in (ROOT / "conf" / group).glob("*.yaml")} - {"own"}
        assert files <= {*TITLES}
    assert len({*TITLES.values()}) == len(TITLES)


def test_users_name_lines_themselves(tmp_path, capsys, drawn):
    file = tmp_path / "labels.yaml"
    file.write_text("MMA-IL: ours $x$\nwait-k: STACL\n", encoding="utf-8")
    runs = make_runs(tmp_path / "runs", *VERBFINAL)
    report({"runs": runs, **OPTIONS})
    plain = (runs / "curves.csv").read_bytes()
    usual = drawn.pop(0).axes[0].lines[0].get_color()
    drawn.clear()
    report({"runs": runs, **OPTIONS, "labels": str(file)})
    assert names_drawn(drawn[0])[:3] == ["ours $x$", "offline (ceiling)", "STACL"]
    assert drawn[0].axes[0].lines[0].get_color() == usual
    assert "ours $x$ lambda=0.1" in capsys.readouterr().out
    assert (runs / "curves.csv").read_bytes() == plain


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("mma_il: ours", "names mma_il, which is no line; the lines are MMA-IL; offline; wait-k"),
        ("MMA-IL: wait-k", "several lines would be called 'wait-k'"),
        ("MMA-IL: 3", "no mapping of names"),
        ("- MMA-IL", "no mapping of names"),
        ("", "no mapping of names"),
        ("MMA-IL: [", "cannot be read"),
        (None, "cannot be read"),
    ],
)
def test_bad_names_of_lines(text, said, tmp_path):
    file = tmp_path / "labels.yaml"
    if text is not None:
        file.write_text(text, encoding="utf-8")
    runs = make_runs(tmp_path / "runs", *VERBFINAL)
    with pytest.raises(UserError, match=said) as error:
        report({"runs": runs, **OPTIONS, "labels": str(file)})
    assert "\n" not in str(error.value)
    assert not (runs / "curves.csv").exists()


def test_formats_width_and_size_of_text(tmp_path, drawn):
    runs = make_runs(tmp_path, *VERBFINAL)
    chosen = {"formats": ["pdf", "png"], "width": 3.5, "font_size": 7}
    report({"runs": runs, **OPTIONS, **chosen})
    assert sorted(path.name for path in runs.glob("curve-*")) == ["curve-DAL.pdf", "curve-DAL.png"]
    pdf = (runs / "curve-DAL.pdf").read_bytes()
    assert pdf.startswith(b"%PDF")
    assert b"/Type3" not in pdf
    assert imread(runs / "curve-DAL.png").shape[1] == 3.5 * 150
    sizes = {text.get_fontsize() for text in drawn[0].axes[0].texts}
    assert {*map(float, sizes)} <= {0.7 * 9.5}
    assert {text.get_fontsize() for text in drawn[0].legends[0].get_texts()} == {7}
    report({"runs": runs, **OPTIONS, **chosen})
    assert (runs / "curve-DAL.pdf").read_bytes() == pdf


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"width": 1.9}, "width is 1.9; it must be from 2 to 30 inches"),
        ({"font_size": 41}, "font_size is 41; it must be from 4 to 40 points"),
        ({"width": 2, "font_size": 9}, "at most 8 points; give a smaller font_size, or width=2.25"),
        ({"formats": ["gif"]}, "formats is 'gif'; choose one of png, svg, pdf"),
        ({"formats": []}, "formats is None; choose one of png, svg, pdf"),
    ],
)
def test_bad_looks(wrong, said, tmp_path):
    with pytest.raises(UserError, match=said):
        report({"runs": make_runs(tmp_path, SOFT), **OPTIONS, **wrong})


def test_the_legend_counts_seeds_and_no_whisker_runs_through_a_label(tmp_path, drawn):
    spreads = [(0.6, 3.0), (0.3, 6.0), (0.9, 2.0)]
    points = [
        Point(3 + i, 30 + 2 * i, f"k={i}", spread, runs=("a", "b", "c"))
        for i, spread in enumerate(spreads)
    ]
    lines = [Series("wait-k", points), Series("MILk", [Point(4.4, 33, "λ=1", runs=("d",))])]
    lines.append(Series("some", [points[0], Point(9, 30, "k=9", runs=("a", "b"))]))
    save(draw_curve(lines, "DAL")[0], [tmp_path / "a.png"])
    assert names_drawn(drawn[0]) == [
        "wait-k (3 seeds)", "MILk", "some (2–3 seeds)", "Pareto front, within 1 s.d.",
        "± s.d. over seeds",
    ]  # fmt: skip
    (axes,) = drawn[0].axes
    assert axes.texts
    for point in points:
        for sign in (-1, 1):
            for way in ((1, 0), (0, 1)):
                shares = np.linspace(0, sign, 200)[:, None] * np.array(way)
                whisker = axes.transData.transform(point.place + shares * point.spread)
                for left, bottom, right, top in boxes(axes)[: len(axes.texts)]:
                    x, y = whisker.T
                    inside = (x > left) & (x < right) & (y > bottom) & (y < top)
                    assert not inside.any()


def test_a_point_is_off_the_front_if_it_is_worse_by_more_than_its_seeds_are():
    best = Point(4.0, 50.0)
    near = Point(4.1, 49.5, spread=(0.2, 0.6))
    slow = Point(4.3, 49.5, spread=(0.2, 0.6))
    poor = Point(4.1, 49.3, spread=(0.2, 0.6))
    certain = Point(4.1, 49.5)
    for other, on in ((near, True), (slow, False), (poor, False), (certain, False)):
        front = front_points([Series("a", [best]), Series("b", [other])])
        assert front == ([best, other] if on else [best])
    wide = Point(4.0, 50.0, spread=(0.2, 0.6))  # the larger deviation of the two counts
    assert front_points([Series("a", [wide, certain])]) == [wide, certain]


def test_the_picture_and_the_csv_have_the_same_front(tmp_path, drawn):
    for seed, (bleu, dal) in enumerate([(48, 4.0), (50, 4.2)]):
        make_run(tmp_path / f"{seed}", "wait_k", {"mechanism.k": 3, "seed": seed}, bleu, dal)
    make_run(tmp_path / "m", "mma_il", {"lambda": 0.2}, 50, 4.05)
    report({"runs": tmp_path, **QUICK})
    assert {row["front_DAL"] for row in rows(tmp_path / "curves.csv")} == {"True"}
    assert "Pareto front, within 1 s.d." in names_drawn(drawn[0])
    halos = drawn[0].axes[0].collections[0].get_offsets()
    assert np.allclose(halos, [(4.05, 50), (4.1, 49)])
    steps = next(line for line in drawn[0].axes[0].lines if line.get_linewidth() == 5)
    assert [*steps.get_ydata()] == [50, 50, 50]


def test_decode_time_policies_are_hollow_and_apart_from_their_ceiling(tmp_path, drawn):
    soft = make_decoded_run(tmp_path / "soft", "soft", {}, make_instances(0.0, 20))
    for n in (1, 2):
        instances = make_instances(0.3 / n, n)
        policy = {"name": "hold_n", "n": n, "layer": None}
        place = evaluate_run(soft, f"n{n}", score(instances), beam=1, policy=policy)
        write_instances(place / "instances.log", instances)
    for k in (1, 3):
        place, instances = tmp_path / f"{k}", make_instances(0.4 / k, k)
        make_decoded_run(place, "wait_k", {"mechanism.k": k}, instances)
    report({"runs": tmp_path, **QUICK, "line": None})
    names = ["offline (ceiling)", "offline + hold-n", "wait-k", "trained policy"]
    assert names_drawn(drawn[0])[:5] == [*names, "decode-time policy"]
    faces = {str(line.get_label()): line.get_markerfacecolor() for line in drawn[0].axes[0].lines}
    assert faces["offline + hold-n"] == "white"
    assert "white" not in (faces["wait-k"], faces["offline (ceiling)"])
    assert {"n=1", "n=2", "offline (ceiling)"} <= {t.get_text() for t in drawn[0].axes[0].texts}
    pairs = {(row["one"], row["other"]) for row in rows(tmp_path / "significance.csv")}
    assert any({"wait_k", "soft + hold_n"} == {a[:-4], b[:-4]} for a, b in pairs)


def test_options_of_a_policy_other_than_its_dial_separate_lines(tmp_path):
    soft = make_run(tmp_path / "soft", "soft", {}, 90, 9)
    for i, (a, last) in enumerate([(0.1, 2), (0.3, 2), (0.1, 4), (0.3, 4)]):
        policy = {"name": "ed_att", "a": a, "last": last, "layer": None}
        evaluate_run(soft, f"{i}", make_scores(50 + i, 3 + i), beam=1, policy=policy)
    for k in (1, 2):
        policy = {"name": "adaptive_wait_k", "k_min": k, "k_max": 3 * k, "rho_max": 0.8}
        evaluate_run(soft, f"k{k}", make_scores(50, 3 + k), beam=1, policy=policy)
    series = {line.name: line for line in curve_series(find_runs(tmp_path).runs, "DAL")}
    assert [*series] == [
        "soft", "soft + adaptive_wait_k", "soft + ed_att last=2", "soft + ed_att last=4",
    ]  # fmt: skip
    labels = [point.label for point in series["soft + adaptive_wait_k"].points]
    assert labels == ["k_min=1, k_max=3", "k_min=2, k_max=6"]
    assert [point.label for point in series["soft + ed_att last=2"].points] == ["a=0.1", "a=0.3"]


def test_the_defaults_keep_the_pictures(tmp_path):
    assert yaml.safe_load((ROOT / "conf" / "report.yaml").read_text())["formats"] == ["png", "svg"]
    runs = make_runs(tmp_path, *VERBFINAL)
    report({"runs": runs, **OPTIONS})
    assert imread(runs / "curve-DAL.png").shape[:2] == (660, 1050)
