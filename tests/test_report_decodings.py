"""Reports on runs that were decoded again, otherwise than when they were trained."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from made_up import evaluate_run, make_run, make_scores
from reported import QUICK, Page, rows
from simulmt.analysis.report import report
from simulmt.analysis.runs.found import find_runs
from simulmt.analysis.tables.names import run_names
from simulmt.analysis.tables.points import by_seed, curve_series
from simulmt.files.run_directory import PROVENANCE, SCORES, Provenance
from simulmt.scoring.scores import Scores, Text
from simulmt.system.disk import read_record, write_json


def decoded(run: Path, k: int, dal: float, **decoding) -> Path:
    name = "-".join([f"test-best-k{k}", *(f"{key}" for key in decoding)])
    return evaluate_run(run, name, make_scores(50 + k, dal), **{"dials": {"k": k}, **decoding})


def test_decodings_of_one_run_are_one_curve(tmp_path):
    run = make_run(tmp_path / "run", "wait_k", {"mechanism.k": 3}, 53, 3)
    for k in (1, 3, 5, 9):  # 3 is the run's own
        decoded(run, k, k)
    decoded(run, 5, 5.0, beam=1)  # the same again
    for other in ({"split": "valid"}, {"checkpoint": "step-0000005"}, {"word_ms": 300.0},
                  {"split": "news", "text": Text("a", "b", ("c", "d"), {})}):  # fmt: skip
        decoded(run, 7, 7.0, **other)
    make_run(tmp_path / "soft", "soft", {}, 90, 9)
    evaluate_run(tmp_path / "soft", "test-best-beam4", make_scores(91, 9), beam=4)
    runs = find_runs(tmp_path).runs
    soft, wait_k = curve_series(runs, "DAL")
    assert wait_k.name == "wait_k"
    assert [(p.label, p.latency) for p in wait_k.points] == [(f"k={k}", k) for k in (1, 3, 5, 9)]
    assert [point.label for point in soft.points] == ["", "beam=4"]
    report({"runs": tmp_path, **QUICK})
    table = {row["folder"]: row for row in rows(tmp_path / "curves.csv")}
    assert {(row["k"], row["decoding"]) for row in table.values() if row["k"]} == {
        ("1", "k=1"), ("3", ""), ("5", "k=5"), ("9", "k=9"),
    }  # fmt: skip
    assert table["run/evaluation/test-best-k5"]["BLEU"] == "55.0"
    assert {row["folder"] for row in rows(tmp_path / "cost.csv")} == {"run", "soft"}
    page = Page((tmp_path / "report.html").read_text(encoding="utf-8"))
    assert "2 runs and 4 further decodings" in page.text
    assert "wait-k k=9" in page.text
    (tmp_path / "run" / "evaluation" / "test-best-k5" / "scores.json").write_text("{")
    assert len(find_runs(tmp_path).left_out) == 1
    assert len(find_runs(tmp_path, decodings=False).runs) == 2


def test_drafts_by_a_beam_are_told_from_greedy_ones(tmp_path):
    run = make_run(tmp_path / "run", "soft", {}, 90, 9)
    scores = read_record(run / SCORES, Scores)
    write_json(run / SCORES, replace(scores, decoding=replace(scores.decoding, beam=5)))
    for beam in (1, 4, 5):
        own = {"policy": {"name": "local_agreement", "n": 2}, "beam": beam}
        evaluate_run(run, f"beam{beam}", make_scores(80 + beam, beam), **own)
    found = [dict(one.turned) for one in find_runs(tmp_path).runs if one.policy]
    assert found == [{}, {"beam": 4}, {"beam": 5}]


def test_decodings_of_earlier_weights_are_left_out(tmp_path):
    run = make_run(tmp_path / "run", "wait_k", {"mechanism.k": 3}, 53, 3)
    for k, digest in ((1, "now"), (5, "before it went on"), (7, None)):
        decoded(run, k, k, sha256=digest)
    scores = read_record(run / SCORES, Scores)
    write_json(run / SCORES, replace(scores, decoding=replace(scores.decoding, sha256="now")))
    found = find_runs(tmp_path)
    assert [dict(each.turned) for each in found.runs] == [{"k": 1}, {}, {"k": 7}]
    (reason,) = found.left_out
    assert "k5-sha256 (decoded with other weights" in reason


def test_decodings_with_rounded_weights_or_after_earlier_text_are_named(tmp_path):
    run = make_run(tmp_path / "run", "wait_k", {"mechanism.k": 3}, 53, 3)
    for k, other in ((1, {"weights": "int8"}), (5, {"context": "before.txt"})):
        decoded(run, k, k, **other)
    found = find_runs(tmp_path)
    assert len(found.runs) == 1
    assert [reason[-30:] for reason in found.left_out] == ["(another weights= or context=)"] * 2


def test_decodings_of_one_run_among_others_are_a_line_of_their_own(tmp_path):
    for k in (1, 3, 5):
        make_run(tmp_path / f"{k}", "wait_k", {"mechanism.k": k}, 50 + k, k)
    for k in (1, 5, 7):
        decoded(tmp_path / "3", k, k + 0.5)
    runs = find_runs(tmp_path).runs
    trained, turned = curve_series(runs, "DAL")
    assert (trained.name, turned.name) == ("wait_k", "wait_k (trained with k=3)")
    assert [point.latency for point in trained.points] == [1, 3, 5]
    assert [point.latency for point in turned.points] == [1.5, 3, 5.5, 7.5]
    assert len({*run_names(runs).values()}) == 6


def test_evaluations_of_other_text_are_a_report_of_their_own(tmp_path):
    other = {"split": "t17", "text": Text("t17.de", "t17.en", ("ab", "cd"), {})}
    for name, k in (("a", 3), ("b", 5)):
        run = make_run(tmp_path / name, "wait_k", {"mechanism.k": k}, 60 + k, k)
        evaluate_run(run, "t17-best", make_scores(50 + k, k), **other)
        decoded(run, 7, 7.0)
    evaluate_run(run, "t17-best-k1", make_scores(41, 1), dials={"k": 1}, **other)
    soft = make_run(tmp_path / "soft", "soft", {}, 90, 9)
    policy = {"name": "hold_n", "n": 2}
    evaluate_run(soft, "t17-best-hold", make_scores(70, 4), beam=1, policy=policy, **other)
    make_run(tmp_path / "late", "wait_k", {"mechanism.k": 9}, 60, 9)
    listed = find_runs(tmp_path, test="t17")
    (left,) = listed.left_out
    assert "late (no evaluation of t17)" in left
    found = {(run.mechanism, *run.dials()): run.number("BLEU") for run in listed.runs}
    assert found == {
        ("wait_k", "k=3"): 53, ("wait_k", "k=5"): 55, ("wait_k", "k=1"): 41, ("soft", "n=2"): 70
    }  # fmt: skip
    assert [run.is_decoding for run in listed.runs if run.mechanism == "soft"] == [True]
    assert len({run.test_set for run in listed.runs}) == 1
    report({"runs": tmp_path, **QUICK, "test": "t17"})
    assert {row["BLEU"] for row in rows(tmp_path / "curves.csv")} == {
        "53.0",
        "55.0",
        "41.0",
        "70.0",
    }


@pytest.mark.parametrize("of", ["init_sha256", "teacher_sha256"])
def test_seeds_of_other_starts_or_teachers_are_other_points(tmp_path: Path, of: str) -> None:
    for seed, digest in ((1, "a"), (2, "a"), (3, "b")):
        run = make_run(tmp_path / f"{seed}", "wait_k", {"mechanism.k": 3, "seed": seed}, 30, 4)
        told = Provenance("train.py", "now", None, {}, "host", "cpu", **{of: digest})
        write_json(run / PROVENANCE, told)
    groups = by_seed(find_runs(tmp_path).runs)
    assert [[run.folder for run in group] for group in groups] == [["1", "2"], ["3"]]


def test_seeds_of_other_policies_are_other_points(tmp_path: Path) -> None:
    for seed, name in ((1, "hold_n"), (2, "local_agreement")):
        run = make_run(tmp_path / f"{seed}", "soft", {"seed": seed}, 30, 9)
        evaluate_run(run, name, make_scores(28, 4), policy={"name": name, "n": 2})
    found = [run for run in find_runs(tmp_path).runs if run.policy]
    assert [len(group) for group in by_seed(found)] == [1, 1]
