"""What a report must not take for a result: edited logs, copies, runs on other text. Made up."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from made_up import evaluate_run, make_decoded_run, make_instances, make_run, make_scores
from reported import QUICK, Page, rows
from simulmt.analysis.report import report
from simulmt.analysis.runs.found import find_runs
from simulmt.analysis.tables.points import by_seed, curve_series
from simulmt.data.corpus import SPLITS
from simulmt.decoding.writing import Writing
from simulmt.errors import UserError
from simulmt.files.instances import write_instances
from simulmt.files.run_directory import MANIFEST, SCORES
from simulmt.scoring.scores import Text
from simulmt.system.disk import write_json


def train_on(run: Path, text: str) -> None:
    """As after a distillation: the targets are others, the sources are not."""
    digests = {split: {"source_sha256": "abcdef", "target_sha256": name}
               for split, name in (("train", text), ("test", "test"))}  # fmt: skip
    write_json(run / MANIFEST, {"splits": digests})


def lines_of(folder: Path) -> dict[str, list[str]]:
    found = curve_series(find_runs(folder).runs, "DAL")
    return {line.name: [point.label for point in line.points] for line in found}


def test_runs_on_other_text_share_no_line(tmp_path):
    places = (("/d/A", "one"), ("/d/B", "two"), ("/e/A", "one"))
    for i, (root, text) in enumerate(places):
        for k in (1, 3):
            options = {"mechanism.k": k + 4 * (i == 2), "data.root": root}
            train_on(make_run(tmp_path / f"{i}-{k}", "wait_k", options, 30 + k, k), text)
    assert lines_of(tmp_path) == {
        "wait_k data.root=A": ["k=1", "k=5", "k=3", "k=7"], "wait_k data.root=B": ["k=1", "k=3"]
    }  # fmt: skip
    (tmp_path / "to").mkdir()
    report({"runs": tmp_path, **QUICK, "to": tmp_path / "to"})
    page = Page((tmp_path / "to" / "report.html").read_text(encoding="utf-8"))
    assert "wait-k data.root=B k=3" in page.text
    assert "/e/A" in page.text  # a run's own options


def test_text_edited_in_place_is_other_text(tmp_path):
    for seed, text in enumerate(("12345678a", "87654321a")):
        run = make_run(tmp_path / text, "wait_k", {"mechanism.k": 3, "seed": seed}, 30, 3)
        train_on(run, text)
    names = {f"wait_k data.digest={digest}": ["k=3"] for digest in ("abcd1234", "abcd8765")}
    assert lines_of(tmp_path) == names
    assert [len(group) for group in by_seed(find_runs(tmp_path).runs)] == [1, 1]


@pytest.mark.parametrize("convention", ["paper", "simuleval", "ictnlp"])
def test_edited_delays_are_left_out(convention, tmp_path, capsys):
    for k in (1, 3):
        options, instances = {"mechanism.k": k}, make_instances(0.3 / k, k)
        run = make_decoded_run(tmp_path / f"{k}", "wait_k", options, instances)
    ones = [replace(i, delays=(1,) * len(i.delays)) for i in instances]
    write_instances(run / "instances.log", ones)
    report({"runs": tmp_path, **QUICK, "convention": convention, "unit": None})
    printed = " ".join(capsys.readouterr().out.split())
    assert f"left out: {run} (DAL is 4.00 in its scores and 1." in printed
    assert "no pair of lines to compare: no significance.csv" in printed
    assert [row["folder"] for row in rows(tmp_path / "curves.csv")] == ["1"]


def test_a_copy_of_a_run_is_no_second_run(tmp_path, capsys):
    run = make_decoded_run(tmp_path / "a11", "wait_k", {}, make_instances(0.3, 1))
    evaluate_run(run, "k5", make_scores(50, 5), dials={"k": 5})
    shutil.copytree(run, tmp_path / "a11copy")
    report({"runs": tmp_path, **QUICK})
    left = " ".join(capsys.readouterr().out.split())
    assert f"left out: {tmp_path / 'a11copy'} (a copy of a11)" in left
    folders = [row["folder"] for row in rows(tmp_path / "curves.csv")]
    assert folders == ["a11", "a11/evaluation/k5"]


def test_texts_of_one_name_are_told_apart(tmp_path):
    for name, digest, sentences in (("a", "c0ffee11", 5), ("b", "decade22", 9)):
        run = make_run(tmp_path / name, "wait_k", {"mechanism.k": 3}, 60, 3)
        other = {"split": "other", "text": Text("o.de", "o.en", (digest, "x"), {})}
        scores = replace(make_scores(50, 3), sentences=sentences)
        evaluate_run(run, "other-best", scores, **other)
    with pytest.raises(UserError, match=(
        r"other \(5 sentences, SHA-256 c0ffee11, such as a/.*\); "
        r"other \(9 sentences, SHA-256 decade22, such as b/.*delete the older evaluations"
    )):  # fmt: skip
        report({"runs": tmp_path, **QUICK, "test": "other"})
    shutil.rmtree(tmp_path / "b" / "evaluation")
    report({"runs": tmp_path, **QUICK, "test": "other"})
    page = Page((tmp_path / "report.html").read_text(encoding="utf-8"))
    assert "on other, 5 test sentences" in page.text


def test_different_tokenisers_are_not_compared(tmp_path):
    for name, writing in (("a", Writing()), ("b", Writing(bleu="char"))):
        run = make_run(tmp_path / name, "wait_k", {"mechanism.k": 3}, 60, 3)
        write_json(run / SCORES, replace(make_scores(50, 3), writing=writing))
    with pytest.raises(UserError, match=r"different tokenisers .*\(a by 13a, b by char\): choose"):
        report({"runs": tmp_path, **QUICK})


def test_development_sets_are_told_apart_by_their_text(tmp_path):
    for name in ("a", "b"):
        run = make_run(tmp_path / name, "wait_k", {"mechanism.k": 3}, 60, 3)
        digests = {split: {"source_sha256": split, "target_sha256": ""} for split in SPLITS}
        digests["valid"]["target_sha256"] = name
        write_json(run / MANIFEST, {"splits": digests})
        evaluate_run(run, "valid-best", make_scores(50, 3), split="valid")
    with pytest.raises(UserError, match="were tested on different data"):
        report({"runs": tmp_path, **QUICK, "test": "valid"})


def test_a_linked_run_is_read_once(tmp_path):
    make_run(tmp_path / "elsewhere" / "k3", "wait_k", {"mechanism.k": 3}, 60, 3)
    (tmp_path / "runs").mkdir()
    (tmp_path / "runs" / "a").symlink_to(tmp_path / "elsewhere" / "k3")
    (tmp_path / "runs" / "b").symlink_to(tmp_path / "elsewhere" / "k3")
    (tmp_path / "runs" / "loop").symlink_to(tmp_path / "runs")
    (found,) = find_runs(tmp_path / "runs").runs
    assert found.folder == "a"


def test_points_are_named_once_and_single_ones_show_both_latencies(tmp_path, drawn):
    for k, wrong in ((1, 0.1), (3, 0.3)):
        make_decoded_run(tmp_path / f"{k}", "wait_k", {"mechanism.k": k}, make_instances(wrong, k))
    report({"runs": tmp_path, **QUICK, "line": "mechanism.k"})
    labels = {text.get_text() for text in drawn[0].axes[0].texts}
    assert {"k=1", "k=3"} <= labels
    assert not labels & {"k=1 k=1", "k=3 k=3"}
    (row,) = rows(tmp_path / "significance.csv")
    assert float(row["DAL"]) == float(row["DAL_other"]) == pytest.approx(4)
    assert float(row["DAL_one"]) == pytest.approx(2)
