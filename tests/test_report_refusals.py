"""What a report leaves out or refuses, and that it says so. The runs are made up."""

from __future__ import annotations

import json

import pytest

from made_up import make_run
from reported import OPTIONS, SOFT, WAIT_K, make_runs
from simulmt.analysis.report import report
from simulmt.analysis.runs.found import find_runs
from simulmt.errors import UserError
from simulmt.system.disk import check_writable


@pytest.mark.parametrize("text", ["", '{"quality": {}}', "\x00\xff"])
def test_damaged_scores_are_named_and_left_out(text, tmp_path, capsys):
    damaged = make_run(tmp_path / "bad [x]", *SOFT)
    (damaged / "test_scores.json").write_text(text, encoding="latin-1")
    with pytest.raises(UserError, match="no finished run"):
        report({"runs": tmp_path, **OPTIONS})
    make_run(tmp_path / "good", *WAIT_K[0])
    report({"runs": tmp_path, **OPTIONS})
    assert f"left out: {damaged} (" in capsys.readouterr().out
    assert (tmp_path / "curve-DAL.png").is_file()


@pytest.mark.parametrize("name", ["config.json", "traits.json", "manifest.json", "training.json"])
def test_a_damaged_description_is_left_out(name, tmp_path):
    make_run(tmp_path / "good", *SOFT)
    for place, text in (("a", "[1]"), ("b", '{"a": ['), ("c", '{"seed": 1}'), ("d", "")):
        (make_run(tmp_path / place, *SOFT) / name).write_text(text, encoding="utf-8")
    (make_run(tmp_path / "e", *SOFT) / name).unlink()
    found = find_runs(tmp_path)
    assert (len(found.runs), len(found.left_out)) == (1, 5)


def test_nothing_to_report(tmp_path):
    with pytest.raises(UserError, match="is not a folder"):
        report({"runs": tmp_path / "absent", **OPTIONS})
    with pytest.raises(UserError, match="no finished run"):
        report({"runs": tmp_path, **OPTIONS})
    (make_run(tmp_path / "a", *SOFT) / "test_scores.json").unlink()
    assert len(find_runs(tmp_path).left_out) == 1


def test_an_oracle_in_words_is_not_drawn_in_other_units(tmp_path):
    with pytest.raises(UserError, match=r"oracle=x with unit=subword: .* set unit=word"):
        report({"runs": tmp_path, **OPTIONS, "oracle": "x", "unit": "subword"})


def test_a_latency_that_no_run_has_is_named(tmp_path, capsys):
    for path in make_runs(tmp_path, SOFT).rglob("test_scores.json"):
        scores = json.loads(path.read_text())
        scores["figures"]["omnisteval"]["word"]["YAAL"]["value"] = None  # unmeasured
        path.write_text(json.dumps(scores))
    chosen = {"convention": "omnisteval", "latency": ["DAL", "YAAL"]}
    report({"runs": tmp_path, **OPTIONS, **chosen})
    assert "not drawn: no run has YAAL in words" in capsys.readouterr().out
    assert not (tmp_path / "curve-YAAL.png").exists()


def test_one_picture_needs_one_test_set(tmp_path):
    make_run(tmp_path / "a", *SOFT)
    make_run(tmp_path / "b", "soft", {"data.name": "multi30k_deen"}, 30, 9)
    with pytest.raises(UserError, match=r"multi30k_deen \(10 .*such as b\); verbfinal \(10 "):
        report({"runs": tmp_path, **OPTIONS})
    assert not (tmp_path / "curve-DAL.png").exists()


def test_a_folder_that_cannot_be_written_is_refused_before_any_work(tmp_path, monkeypatch, capsys):
    make_runs(tmp_path / "runs", SOFT)
    (tmp_path / "file").touch()
    monkeypatch.setattr("simulmt.analysis.report.read_logs", None)
    for to in (tmp_path / "file" / "below", "/proc/x"):
        with pytest.raises(UserError, match=r"cannot be written .*to=DIR"):
            report({"runs": tmp_path / "runs", **OPTIONS, "to": to})
    check_writable(tmp_path / "new" / "below")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "runs"]
    assert capsys.readouterr().out == ""
