"""Tables, curves and CSV files by each convention. The runs are made up."""

from __future__ import annotations

import csv

import pytest

from reported import OPTIONS, SOFT, VERBFINAL, WAIT_K, make_runs, table_rows
from simulmt.analysis.report import report
from simulmt.analysis.runs.found import find_runs
from simulmt.errors import UserError
from simulmt.scoring.conventions import CONVENTIONS
from simulmt.system.disk import read_json, write_json


@pytest.mark.parametrize("name", ["simuleval", "omnisteval", "ictnlp"])
def test_table_curve_and_csv_by_a_convention(name, tmp_path, capsys, drawn):
    options = {**OPTIONS, "convention": name}
    report({"runs": make_runs(tmp_path, *VERBFINAL), **options})
    out = capsys.readouterr().out
    figures = CONVENTIONS[name].figures
    header = next(line for line in out.splitlines() if "BLEU" in line)
    assert [cell.strip() for cell in header.strip("┃").split("┃")][1:] == [*figures]
    assert f"AL|{name}" in out
    soft = next(row for row in table_rows(out) if row[0] == "offline")
    assert soft[1] == "100.90"
    assert soft[1 + figures.index("DAL")] == f"{10.2 / 4:.2f}"
    oracle = [row for row in table_rows(out) if row[0] == "oracle"]
    assert len(oracle) == (name != "ictnlp")  # known in words alone
    (axes,) = drawn[0].axes
    (unit,) = CONVENTIONS[name].units
    assert axes.get_xlabel().startswith(f"DAL (source {unit}s) by {name}")
    points = {(x, y) for line in axes.lines for x, y in line.get_xydata().tolist()}
    assert (10.2 / 4, 100.9) in points
    with (tmp_path / "curves.csv").open(encoding="utf-8", newline="") as file:
        rows = {row["folder"]: row for row in csv.DictReader(file)}
    assert rows["run-0"][f"DAL_{name}"] == str(10.2 / 4)
    assert (rows["run-0"]["DAL_word"], rows["run-0"]["BLEU"]) == ("10.2", "99.9")


def test_an_unknown_convention_lists_the_four(tmp_path):
    for wrong in ("iwslt", None, 3, ["paper"]):
        options = {**OPTIONS, "convention": wrong}
        with pytest.raises(UserError, match="one of paper, simuleval, omnisteval, ictnlp"):
            report({"runs": make_runs(tmp_path / str(wrong), SOFT), **options})


@pytest.mark.parametrize(
    ("convention", "wrong", "choices"),
    [
        (
            "simuleval",
            {"unit": "subword"},
            "convention=simuleval: unit is 'subword'; choose one of word",
        ),
        ("ictnlp", {"unit": "word"}, "choose one of subword"),
        ("ictnlp", {"latency": "LAAL"}, "choose one of CW, AP, AL, DAL"),
        ("paper", {"latency": "YAAL"}, "choose one of DAL, AL, AP, LAAL"),
    ],
)
def test_a_convention_has_its_unit_and_its_latencies(convention, wrong, choices, tmp_path):
    options = {**OPTIONS, "convention": convention, **wrong}
    with pytest.raises(UserError, match=choices):
        report({"runs": make_runs(tmp_path, SOFT), **options})


def test_a_damaged_convention_is_left_out(tmp_path):
    file = make_runs(tmp_path, SOFT, WAIT_K[0]) / "run-1" / "test_scores.json"
    scores = read_json(file)
    figures = scores["figures"]["simuleval"]["word"]
    for damage in ({}, {**figures, "AL": "much"}, {**figures, "AL": {"value": 1.0}}, None):
        scores["figures"]["simuleval"]["word"] = damage
        write_json(file, scores)
        assert len(find_runs(tmp_path).left_out) == 1
    del scores["figures"]["simuleval"]
    write_json(file, scores)
    assert len(find_runs(tmp_path).left_out) == 1
