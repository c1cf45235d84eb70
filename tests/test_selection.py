"""Runs chosen on the development set, and published figures. The runs are made up."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest
import yaml

from made_up import ROOT, evaluate_run, make_run, make_scores
from simulmt.analysis.report import report
from simulmt.analysis.tables.published import read_published
from simulmt.errors import UserError

OPTIONS = yaml.safe_load((ROOT / "conf" / "report.yaml").read_text(encoding="utf-8"))
OPTIONS = {k: v for k, v in OPTIONS.items() if k not in ("defaults", "hydra", "plugins", "runs")}
OPTIONS |= {"latency": "DAL", "select": "dal", "ranges": [[3, 4], [4, 5], [8, 9]]}
PUBLISHED = [path for path in sorted((ROOT / "experiments").glob("*/*.csv"))
             if path.read_text(encoding="utf-8").startswith("system,")]  # fmt: skip


def make_trained(folder: Path, weight: float, *validations: tuple, **options) -> Path:
    """A run with (selection, BLEU, DAL) of each validation; tested it has 50 and the last DAL."""
    chosen = {"lambda": weight, "trainer": options}
    run = make_run(folder, "mma_h", chosen, 50 + weight, validations[-1][2] + 0.5)
    lines = ["step,train/loss,valid/BLEU,valid/word/DAL,valid/word/AL,valid/selection", "9,1.0,,,,"]
    for i, (selection, bleu, dal) in enumerate(validations, 1):
        lines.append(f"{100 * i - 1},,{bleu},{dal},{dal - 1},{selection}")
    (run / "metrics.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return run


def selected(folder: Path, **options) -> list[dict[str, str]]:
    report({"runs": folder, **OPTIONS, **options})
    with (folder / "selected.csv").open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def test_the_best_on_the_development_set_within_each_range(tmp_path, capsys):
    make_trained(tmp_path / "a", 0.1, (-900, 99, 9.0), (30, 30, 3.5), (30, 30, 3.6), (20, 20, 3.1))
    make_trained(tmp_path / "b", 0.2, (31, 31, 3.9))
    make_trained(tmp_path / "c", 0.3, (29, 29, 4.0))
    first, second, third = selected(tmp_path)
    assert (first["folder"], first["step"], first["dev_BLEU"]) == ("b", "100", "31.0")
    assert (first["dev_DAL"], first["test_DAL"], first["test_BLEU"]) == ("3.9", "4.4", "50.2")
    assert (second["folder"], second["dev_DAL"]) == ("c", "4.0")
    assert (third["run"], third["folder"], third["test_BLEU"]) == ("", "", "")
    out = capsys.readouterr().out
    assert "no run" in out
    assert "no run" in (tmp_path / "report.html").read_text(encoding="utf-8")
    report({"runs": tmp_path, **OPTIONS, "select": None, "ranges": []})
    assert "selected.csv is of an earlier report" in " ".join(capsys.readouterr().out.split())


def test_a_run_is_selected_by_its_development_set_for_other_text(tmp_path):
    run = make_trained(tmp_path / "a", 0.1, (30, 30, 3.5))
    evaluate_run(run, "t17", make_scores(40, 3.6), split="t17")
    first, *_ = selected(tmp_path, test="t17")
    assert (first["dev_BLEU"], first["test_BLEU"]) == ("30.0", "40.0")


def test_a_run_counts_with_the_checkpoint_that_was_tested(tmp_path):
    make_trained(tmp_path, 0.1, (-900, 99, 9.0), (30, 30, 3.5), (30, 40, 4.5), (20, 20, 8.5))
    first, second, third = selected(tmp_path)
    assert (first["step"], first["dev_BLEU"]) == ("200", "30.0")  # the first of equals
    assert (second["run"], third["run"]) == ("", "")


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"ranges": []}, "select=dal and ranges=..: give both"),
        ({"select": None}, "select=None and ranges=.*: give both"),
        ({"ranges": [[4, 3]]}, "it must be .least,most."),
        ({"select": "bleu"}, "select is 'bleu'; .*laal"),
        ({"select": "al", "convention": "simuleval"}, "select=al with convention=simuleval: "),
    ],
)
def test_bad_choices(wrong, said, tmp_path):
    make_trained(tmp_path, 0.1, (30, 30, 3.5))
    with pytest.raises(UserError, match=said):
        report({"runs": tmp_path, **OPTIONS, **wrong})


@pytest.mark.parametrize("path", PUBLISHED, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_published_figures_can_be_drawn(path):
    name = f"{path.parent.name}/{path.stem}"
    with path.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    for latency in ("DAL", "AL", "AP"):
        for unit in ("word", "subword"):
            series, notes = read_published([name], latency, unit, ROOT / "experiments")
            assert (series, notes) == read_published([str(path)], latency, unit, Path("nowhere"))
            known = [row for row in rows if row.get(latency)]
            comparable = [row for row in known if row.get("latency_unit") == unit]
            assert sum(len(one.points) for one in series) == len(comparable)
            assert all("BLEU)" in one.name and one.published for one in series)
            assert bool(notes) == (len(known) > len(comparable))


def test_systems_of_two_papers_are_two_lines_even_with_one_name():
    names = ["milk/table5", "milk/table6"]
    series, _ = read_published(names, "AL", "subword", ROOT / "experiments")
    shared = {line.name for line in series}
    assert len(series) == 2 * len(shared)


def test_published_figures_lie_beside_the_runs(tmp_path, capsys):
    path = tmp_path / "theirs.csv"
    path.write_text(
        "system,BLEU,DAL,BLEU_kind,latency_unit\nA,28.5,4.1,tokenised,word\nA,29.5,5.1,tokenised,word\n"
        "B,27,,tokenised,word\nC,27,3.2,tokenised,subword\nD,26,3.1,,\n"
    )
    make_run(tmp_path / "run", "wait_k", {}, 30, 4)
    options = {**OPTIONS, "select": None, "ranges": [], "published": str(path)}
    report({"runs": tmp_path, **options})
    text = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "A, published (tokenised BLEU)" in text
    assert "C, published" not in text
    out = capsys.readouterr().out
    assert "published, not drawn: theirs, C: its unit of latency is subword" in out
    assert "published, not drawn: theirs, D: its unit of latency is not stated" in out


def test_both_ends_of_a_range_are_in_it(tmp_path) -> None:
    make_trained(tmp_path / "a", 0.1, (30, 30, 4.0))
    make_trained(tmp_path / "b", 0.2, (20, 20, 6.0))
    found = selected(tmp_path, ranges=[[3, 4], [4, 5], [5, 6]])
    assert [row["folder"] for row in found] == ["a", "a", "b"]
