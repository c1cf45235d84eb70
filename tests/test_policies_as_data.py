"""Policies as files: evaluations that replay one, other systems of a report, published lists."""

from __future__ import annotations

import gzip
import json
import math
import shutil
from dataclasses import replace
from itertools import accumulate
from pathlib import Path

import pytest

from made_up import make_decoded_run, make_instances
from reported import QUICK, rows
from simulmt.analysis.report import report
from simulmt.decoding.recorded import read_recorded
from simulmt.errors import UserError
from simulmt.files.instances import read_instances, read_lists, write_lists
from simulmt.programs.evaluate import evaluate
from simulmt.scoring.score import score
from small_runs import LONGER, configuration

pytestmark = pytest.mark.usefixtures("no_pictures")
PUBLISHED = Path(__file__).parents[2] / "shared" / "data" / "policies_hmt" / "L3_K6.json.gz"


def evaluated(run: Path, *overrides: str) -> Path:
    before = {*(run / "evaluation").glob("*")}
    evaluate(configuration("evaluate", f"checkpoint={run}", "device=cpu", *overrides))
    (new,) = {*(run / "evaluation").glob("*")} - before
    return new


@pytest.fixture
def run(trained_once, tmp_path, request) -> Path:
    trained = trained_once(*LONGER, *request.param)
    return Path(shutil.copytree(trained, tmp_path / "run"))


@pytest.mark.parametrize("run", [["mechanism=mma_il"]], indirect=True)
def test_a_runs_own_log_gives_it_back(run: Path) -> None:
    log = run / "instances.log"
    again = evaluated(run, "policy=from_file", f"policy.file={log}", "policy.unit=subword")
    assert (again / "instances.log").read_bytes() == log.read_bytes()
    other = evaluated(run, "policy=from_file", f"policy.file={log}", "export=policy")
    assert again != other, "the unit is in the name"
    lists, own = read_lists(other / "policy.json"), read_instances(other / "instances.log")
    assert [(one.source, one.prediction, one.delays) for one in lists] == [
        (one.source, one.prediction, one.delays) for one in own
    ]
    with pytest.raises(UserError, match=r"use evaluate\.py, without word_ms"):
        evaluated(run, "policy=from_file", f"policy.file={log}", "word_ms=100")
    with pytest.raises(UserError, match="has 11 sentences, the text 9"):
        evaluated(run, "policy=from_file", f"policy.file={log}", "split=valid")


@pytest.mark.parametrize("run", [["mechanism=soft", "model.encoder=bidirectional"]], indirect=True)
def test_a_policys_log_gives_it_back(run: Path) -> None:
    first = evaluated(run, "policy=local_agreement", "policy.n=1")
    log = first / "instances.log"
    again = evaluated(run, "policy=from_file", f"policy.file={log}")
    assert (again / "instances.log").read_bytes() == log.read_bytes()
    assert any(i.delays and min(i.delays) < i.source_length for i in read_instances(log))
    with pytest.raises(UserError, match="unit=subword needs a causal encoder"):
        evaluated(run, "policy=from_file", f"policy.file={log}", "policy.unit=subword")


def test_lists_are_other_systems(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    runs, theirs = tmp_path / "runs", make_instances(0.1, 1)
    make_decoded_run(runs / "mma_il", "mma_il", {}, make_instances(0.2, 1))
    write_lists(tmp_path / "a.json", theirs)
    acts = [
        {
            "src": one.source,
            "hyp": one.prediction,
            "tgt": one.reference,
            "rw": [
                act
                for before, now in zip((0, *one.delays), one.delays, strict=False)
                for act in (*[0] * (now - before), 1)
            ],
        }
        for one in theirs
    ]
    (tmp_path / "b.jsonl").write_text("\n".join(map(json.dumps, acts)))
    others = {"A": str(tmp_path / "a.json"), "B": str(tmp_path / "b.jsonl")}
    report({"runs": runs, **QUICK, "others": others})
    found = {row["folder"]: row for row in rows(runs / "curves.csv")}
    figures = score(theirs)["paper", "word"]
    for name in others:
        for key in ("BLEU", "DAL"):
            column = next(column for column in found[name] if column.startswith(key))
            assert float(found[name][column]) == pytest.approx(float(figures[key]))
    bare = [{key: value for key, value in one.items() if key != "src"} for one in acts]
    (tmp_path / "b.jsonl").write_text("\n".join(map(json.dumps, bare)))
    report({"runs": runs, **QUICK, "others": others})
    assert {row["folder"]: row for row in rows(runs / "curves.csv")} == found
    acts[0]["tgt"] = "another one"
    (tmp_path / "b.jsonl").write_text("\n".join(map(json.dumps, acts)))
    with pytest.raises(UserError, match="index 0: the reference is 'another one'"):
        report({"runs": runs, **QUICK, "others": others})


@pytest.mark.skipif(not PUBLISHED.exists(), reason=f"{PUBLISHED} is not here")
@pytest.mark.parametrize("run", [["mechanism=soft", "model.encoder=bidirectional"]], indirect=True)
def test_published_lists_are_replayed_on_a_model(run: Path, tmp_path: Path) -> None:
    lists = json.loads(gzip.decompress(PUBLISHED.read_bytes()))[:8]
    (tmp_path / "lists.json").write_text(json.dumps(lists))
    for side, key in (("source", "input"), ("target", "output")):
        (tmp_path / side).write_text("".join(f"{one[key]}\n" for one in lists))
    text = ["text=theirs", f"source={tmp_path}/source", f"target={tmp_path}/target"]
    policy = ["policy=from_file", f"policy.file={tmp_path}/lists.json"]
    ours = read_instances(evaluated(run, *text, *policy) / "instances.log")
    for one, found in zip(lists, ours, strict=True):
        reads = [min(read, found.source_length) for read in accumulate(one["policy"], max)]
        reads += [found.source_length] * (len(found.delays) - len(reads))  # it writes more words
        assert found.delays
        assert [*found.delays] == reads[: len(found.delays)]


@pytest.mark.skipif(not PUBLISHED.exists(), reason=f"{PUBLISHED} is not here")
def test_latency_of_published_lists_in_plain_loops(capsys: pytest.CaptureFixture[str]) -> None:
    lags, dals = [], []
    for one in read_recorded(PUBLISHED):
        x, y = len(one.source.split()), len(one.reads)
        delays = [min(read, x) for read in one.reads]
        tau = next((i for i, g in enumerate(delays, 1) if g == x), y)
        lags.append(sum(g - i * x / y for i, g in enumerate(delays[:tau])) / tau)
        later, before = 0.0, -math.inf
        for i, g in enumerate(delays):
            before = max(g, before + x / y)
            later += before - i * x / y
        dals.append(later / y)
    lists = [replace(one, reference=one.prediction) for one in read_lists(PUBLISHED)]
    figures = score(lists)["paper", "word"]
    # ours are float64 sums in another order
    assert float(figures["AL"]) == pytest.approx(sum(lags) / len(lags), abs=1e-9)
    assert float(figures["DAL"]) == pytest.approx(sum(dals) / len(dals), abs=1e-9)
    print(f"AL {sum(lags) / len(lags):.3f} DAL {sum(dals) / len(dals):.3f}")
    assert "1,821 of 2,169 lists do not have one delay" in capsys.readouterr().err
