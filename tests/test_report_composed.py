"""Lines of runs whose configurations Hydra composed, as every run's is. The decoding is made up."""

from __future__ import annotations

from pathlib import Path

import pytest

from made_up import make_decoded_run, make_instances
from reported import QUICK, ROOT, Page, names_drawn, rows, table_rows
from simulmt.analysis.report import report
from simulmt.analysis.runs.found import find_runs
from simulmt.analysis.tables.names import run_names
from simulmt.analysis.tables.points import curve_series
from simulmt.files.run_directory import CONFIG
from simulmt.parts.configuration import Setup
from simulmt.programs.plain import plain
from simulmt.system.disk import write_json
from small_runs import configuration

LINES = ("milk", "mma_il")
OBJECTIVES = sorted(path.stem for path in (ROOT / "conf" / "objective").glob("[!_]*.yaml"))
LEARNED = ["emma", "milk", "mma_c", "mma_h", "mma_il", "mocha", "monotonic"]


def make_composed(folder: Path, mechanism: str, late: int, *overrides: str) -> Path:
    run = make_decoded_run(folder, mechanism, {}, make_instances(0.3 / late, late))
    write_json(run / CONFIG, plain(configuration("train", f"mechanism={mechanism}", *overrides)))
    return run


@pytest.mark.parametrize(
    ("mechanism", "overrides"),
    [
        *((mechanism, []) for mechanism in LEARNED),
        *(("mma_h", [f"objective={objective}"]) for objective in OBJECTIVES),
        ("mma_il", ["objective.hold=20", "objective.terms={}"]),
    ],
)
def test_a_sweep_over_a_weight_is_one_line(mechanism, overrides, tmp_path):
    for late, name in ((1, "lambda"), (2, "lambda"), (3, "lambda_var")):
        chosen = [f"lambda={0.1 * late}", f"{name}={0.1 * late}", *overrides]
        make_composed(tmp_path / f"{late}", mechanism, late, *chosen)
    runs = find_runs(tmp_path).runs
    (line,) = curve_series(runs, "DAL")
    assert (line.name, len(line.points)) == (mechanism, 3)
    names = [*run_names(runs).values()]
    assert len({*names}) == 3
    for name, weight in zip(names, ("0.1", "0.2", "0.3"), strict=True):
        words = name.split()
        assert words[:2] == [mechanism, f"lambda={weight}"]
        assert {word.partition("=")[0] for word in words[2:]} <= {"lambda_var"}
        assert len({word.partition("=")[0] for word in words}) == len(words)


def test_a_report_of_a_sweep_draws_its_curves(tmp_path, capsys, drawn):
    for late, mechanism in ((1, "mma_il"), (2, "milk")):
        for weight in (0.0, 0.1):
            place = tmp_path / f"{mechanism}-{weight}"
            make_composed(place, mechanism, late + round(20 * weight), f"lambda={weight}")
    report({"runs": tmp_path, **QUICK})
    assert names_drawn(drawn[0])[:2] == ["MILk", "MMA-IL"]
    names = {row[0] for row in table_rows(capsys.readouterr().out)}
    assert names == {f"{m} lambda={weight}" for m in ("MILk", "MMA-IL") for weight in ("0", "0.1")}
    page = Page((tmp_path / "report.html").read_text(encoding="utf-8"))
    assert "MILk lambda=0.1" in page.text
    table = rows(tmp_path / "curves.csv")
    assert not [column for column in table[0] if column.startswith("objective")]
    assert {row["lambda"] for row in table} == {"0.0", "0.1"}
    pairs = rows(tmp_path / "significance.csv")
    assert {frozenset((row["one"], row["other"])) for row in pairs} == {frozenset(LINES)}


def test_a_weight_set_at_the_objective_is_the_weight(tmp_path):
    chosen = plain(configuration("train", "mechanism=mma_il", "objective.lambda=0.4"))
    assert Setup.of(chosen).weights == {"lambda": 0.4}
    for late, weight in ((1, 0.1), (2, 0.4)):
        make_composed(tmp_path / f"{late}", "mma_il", late, f"objective.lambda={weight}")
    runs = find_runs(tmp_path).runs
    assert [*run_names(runs).values()] == ["mma_il lambda=0.1", "mma_il lambda=0.4"]
    assert [run.row()["lambda"] for run in runs] == [0.1, 0.4]
