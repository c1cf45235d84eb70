"""Other systems in a report, by their logs on the same test set. The runs are made up."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest

from made_up import evaluate_run, make_decoded_run, make_instances, make_run, make_scores
from reported import QUICK, Page, rows, table_rows
from simulmt.analysis.report import report
from simulmt.decoding.instance import Instance
from simulmt.errors import UserError
from simulmt.files.instances import to_json, write_instances
from simulmt.scoring.score import score
from simulmt.scoring.scores import Text


@pytest.fixture
def runs(tmp_path) -> Path:
    folder = tmp_path / "runs"
    make_decoded_run(folder / "soft", "soft", {}, make_instances(0.0, 20))
    make_decoded_run(folder / "mma_il", "mma_il", {"lambda": 0.2}, make_instances(0.2, 1))
    return folder


def foreign(path: Path, instances: list[Instance], **changes) -> str:
    """A log as SimulEval writes it, in any order, from any index, with other spaces."""
    lines = []
    for instance in reversed(instances):
        record = json.loads(to_json(instance)) | {"elapsed": [0] * len(instance.delays)}
        record |= {"index": instance.index + 7, "source": f"{instance.source} ", "metric": {}}
        lines.append(json.dumps(record | changes))
    path.write_text("\n".join(lines), encoding="utf-8")
    return str(path)


def test_another_system_is_a_point_everywhere(runs, tmp_path, capsys, drawn):
    instances = make_instances(0.1, 1)
    log = foreign(tmp_path / "theirs", instances)
    report({"runs": runs, **QUICK, "others": {"Deep NMT": log}, "training": True})
    figures = score(instances)["paper", "word"]
    (axes,) = drawn[0].axes
    (line,) = [line for line in axes.lines if line.get_label() == "Deep NMT"]
    assert line.get_xydata()[0] == pytest.approx([float(figures["DAL"]), float(figures["BLEU"])])
    assert line.get_fillstyle() == "left"
    assert "Deep NMT" in {text.get_text() for text in axes.texts}
    out = capsys.readouterr().out
    row = table_rows(out)[-1]
    assert (row[0], row[1]) == ("Deep NMT", "–")
    assert figures["BLEU"].form() in row
    found = {row["folder"]: row for row in rows(runs / "curves.csv")}
    own = found["Deep NMT"]
    assert float(own["BLEU"]) == pytest.approx(float(figures["BLEU"]))
    assert float(own["BLEU_low"]) < float(own["BLEU"]) < float(own["BLEU_high"])
    assert (own["model"], own["seed"], own["lambda"], own["updates"]) == ("", "", "", "")
    assert (own["front_DAL"], found["mma_il"]["front_DAL"]) == ("True", "False")
    (pair,) = rows(runs / "significance.csv")
    assert (pair["one"], pair["other"]) == ("Deep NMT", "mma_il")
    assert {row["folder"] for row in rows(runs / "cost.csv")} == {"soft", "mma_il"}
    page = Page((runs / "report.html").read_text(encoding="utf-8"))
    assert page.open == []
    assert "2 runs and 1 other system on" in page.text


def test_another_system_changes_no_row_of_the_runs(runs, tmp_path):
    report({"runs": runs, **QUICK})
    before = (runs / "curves.csv").read_text(encoding="utf-8").splitlines()
    log = foreign(tmp_path / "theirs", make_instances(0.9, 5))
    report({"runs": runs, **QUICK, "others": {"theirs": log}})
    assert (runs / "curves.csv").read_text(encoding="utf-8").splitlines()[:-1] == before


def test_another_system_that_reads_all_first_is_a_ceiling(runs, tmp_path, drawn):
    log = foreign(tmp_path / "theirs", make_instances(0.1, 20))
    report({"runs": runs, **QUICK, "others": {"theirs": log}})
    assert "theirs (ceiling)" in {text.get_text() for text in drawn[0].legends[0].get_texts()}


def test_a_system_without_the_unit_is_in_the_table_only(runs, tmp_path, capsys):
    make_run(runs / "more", "milk", {"lambda": 0.1}, 40, 4)
    log = foreign(tmp_path / "theirs", make_instances(0.1, 1))
    report({"runs": runs, **QUICK, "others": {"theirs": log}, "unit": "subword"})
    out = capsys.readouterr().out
    assert "others, not drawn: theirs: its log has no DAL in subwords" in out
    assert table_rows(out)[-1][0] == "theirs"


def test_others_on_another_test_set(tmp_path):
    text = {"split": "t17", "text": Text("t17.de", "t17.en", ("0a", "0b"), {})}
    ours, theirs = make_instances(0.3, 2, seed=5), make_instances(0.2, 2, seed=5)
    for seed in (1, 2):
        options = {"mechanism.k": 3, "seed": seed}
        run = make_decoded_run(tmp_path / f"{seed}", "wait_k", options, make_instances(0.2))
        place = evaluate_run(run, "t17-best", score(ours), **text)
        write_instances(place / "instances.log", ours)
    soft = make_run(tmp_path / "soft", "soft", {}, 90, 9)
    policy = {"name": "hold_n", "n": 2}
    evaluate_run(soft, "t17-best", make_scores(80, 9), **text)
    evaluate_run(soft, "t17-best-hold", make_scores(70, 4), beam=1, policy=policy, **text)
    labels = tmp_path / "labels.yaml"
    labels.write_text("wait-k: STACL\nDeep: D\n", encoding="utf-8")
    options = {**QUICK, "test": "t17", "labels": str(labels), "to": tmp_path / "to"}
    options |= {"formats": "pdf", "line": "mechanism.name"}
    report({"runs": tmp_path, **options, "others": {"Deep": foreign(tmp_path / "log", theirs)}})
    (pair,) = rows(tmp_path / "to" / "significance.csv")
    assert (pair["one"], pair["other"], pair["seeds_other"]) == ("Deep", "wait_k", "2")
    page = Page((tmp_path / "to" / "report.html").read_text(encoding="utf-8"))
    assert all(name in page.text for name in ("STACL", "offline + hold-n n=2", "offline (ceiling)"))
    assert len(rows(tmp_path / "to" / "curves.csv")) == 5
    with pytest.raises(UserError, match="index 7: the source is"):
        report({"runs": tmp_path, **options, "others": {"Deep": foreign(
            tmp_path / "log", make_instances(0.2, 2))}})  # fmt: skip


def test_wrong_logs_are_refused_in_one_line(runs, tmp_path):
    path, good = tmp_path / "log", make_instances(0.1, 1)
    other = [dataclasses.replace(good[0], reference="another one"), *good[1:]]
    twice = [good[0], *good[:-1]]
    for wrong, said in (
        (foreign(path, good[1:]), "59 sentences, the test set 60; give a log"),
        (str(tmp_path), "cannot be read"),
        (None, "others.A is None"),
    ):
        refused(runs, {"A": wrong}, said)
    refused(runs, {"A": foreign(path, other)}, "index 7: the reference is 'another one', that of")
    refused(runs, {"A": foreign(path, twice)}, "index 7: the ")
    refused(runs, {"A": foreign(path, good, reference=3)}, "line 1: reference is 3")
    refused(runs, {"A": foreign(path, good, delays=[1])}, "line 1: .*1 delays ")
    path.write_text('{"index": 0}\n')
    refused(runs, {"A": str(path)}, "prediction is .*: Field required")
    path.write_text("BLEU 30.1\n")
    refused(runs, {"A": str(path)}, "line 1: ")
    path.write_text("")
    refused(runs, {"A": str(path)}, "0 sentences, the test set 60")
    refused(runs, "log", "others is 'log'")
    log = foreign(path, good)
    for name in ("mma_il", "MMA-IL", "soft"):
        refused(runs, {name: log}, f"others has the name '{name}', which a line or a folder of the")


def refused(runs: Path, others: object, said: str) -> None:
    with pytest.raises(UserError, match=said) as error:
        report({"runs": runs, **QUICK, "others": others})
    assert "\n" not in str(error.value)
    assert not (runs / "curves.csv").exists()


def test_others_need_a_log_to_compare_with(tmp_path):
    make_run(tmp_path / "soft", "soft", {}, 90, 9)
    log = foreign(tmp_path / "log", make_instances(0.1, 1))
    with pytest.raises(UserError, match=r"no run has an instances.log to compare"):
        report({"runs": tmp_path, **QUICK, "others": {"A": log}})
