"""Other systems in a report, by their logs on the same test set. The runs are made up."""

from __future__ import annotations

import dataclasses
import json
import shutil
from pathlib import Path

import pytest

from made_up import make_decoded_run, make_instances
from reported import QUICK, Page, rows, table_rows
from simulmt.analysis.report import report
from simulmt.decoding.instance import Instance
from simulmt.errors import UserError
from simulmt.files.instances import to_json, write_lists
from simulmt.scoring.score import score


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
    report({"runs": runs, **QUICK, "others": {"Deep NMT": log}})
    figures = score(instances)["paper", "word"]
    (axes,) = drawn[0].axes
    (line,) = [line for line in axes.lines if line.get_label() == "Deep NMT"]
    assert line.get_xydata()[0] == pytest.approx([float(figures["DAL"]), float(figures["BLEU"])])
    assert line.get_fillstyle() == "left"
    assert "Deep NMT" in {text.get_text() for text in axes.texts}
    out = capsys.readouterr().out
    row = table_rows(out)[-1]
    assert row[0] == "Deep NMT"
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


def test_lists_are_the_oracle_of_all_runs(runs, tmp_path, capsys, drawn):
    instances = [
        dataclasses.replace(one, prediction=one.reference, delays=(2,) * one.reference_length)
        for one in make_instances(0.1, 1)
    ]
    write_lists(tmp_path / "oracle.json", instances)
    others = {"theirs": foreign(tmp_path / "theirs", instances)}
    report({"runs": runs, **QUICK, "oracle": tmp_path / "oracle.json", "others": others})
    figures = score(instances)["paper", "word"]
    (axes,) = drawn[0].axes
    marks = [line.get_xdata() for line in axes.lines if len(set(line.get_xdata())) == 1]
    assert [float(figures["DAL"])] * 2 in [pytest.approx([*mark]) for mark in marks]
    last = table_rows(capsys.readouterr().out)[-1]
    assert last[0] == "oracle"
    assert figures["DAL"].form() in last


def test_wrong_logs_are_refused_in_one_line(runs, tmp_path):
    path, good = tmp_path / "log", make_instances(0.1, 1)
    other = [dataclasses.replace(good[0], reference="another one"), *good[1:]]
    twice = [good[0], *good[:-1]]
    refused(runs, {"A": foreign(path, good[1:])}, "59 sentences, the test set 60")
    refused(runs, {"A": str(tmp_path)}, "cannot be read")
    refused(runs, {"A": foreign(path, other)}, "index 7: the reference is 'another one'")
    refused(runs, {"A": foreign(path, twice)}, "index 7: the ")
    path.write_text("BLEU 30.1\n")
    refused(runs, {"A": str(path)}, "line 1: ")
    refused(runs, {"MMA-IL": foreign(path, good)}, "others: a run has the name 'MMA-IL', too")
    with pytest.raises(UserError, match=r"quality=\[0,0.1\] holds no BLEU: those of DAL lie"):
        report({"runs": runs, **QUICK, "quality": [0, 0.1], "to": tmp_path / "to"})
    assert not (tmp_path / "to").exists()
    copy = shutil.copytree(runs, tmp_path / "copy", ignore=shutil.ignore_patterns("*.csv"))
    for log in copy.rglob("instances.log"):
        log.unlink()
    refused(copy, {"A": foreign(path, good)}, "others and oracle need the sentences of a run")


def refused(runs: Path, others: object, said: str) -> None:
    with pytest.raises(UserError, match=said) as error:
        report({"runs": runs, **QUICK, "others": others})
    assert "\n" not in str(error.value)
    assert not (runs / "curves.csv").exists()
