"""An offline model made simultaneous: evaluated in batches and word by word, live, and reported."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from simulmt.analysis.runs.found import find_runs
from simulmt.analysis.tables.points import curve_rows, curve_series
from simulmt.decoding.instance import Instance
from simulmt.decoding.policies.local_agreement import LocalAgreement
from simulmt.decoding.policies.newest_token import NewestToken
from simulmt.errors import UserError
from simulmt.files.instances import read_instances
from simulmt.programs.evaluate import evaluate
from simulmt.saved import checkpoint
from simulmt.scoring.scores import Scores
from simulmt.system.console import warn
from simulmt.system.disk import read_record
from small_runs import LONGER, configuration

pytestmark = pytest.mark.usefixtures("no_pictures")
POLICIES = {
    "local_agreement": {"n": 1},
    "hold_n": {"n": 1},
    "wait_k": {"k": 2},
    "adaptive_wait_k": {"k_max": 4},
    "align_att": {"f": 1},
    "ed_att": {"a": 0.5},
    "retranslation": {},
}
FAST = ["local_agreement"]
every_policy = pytest.mark.parametrize(
    "name",
    [*FAST, *(pytest.param(name, marks=pytest.mark.slow) for name in POLICIES if name not in FAST)],
)


@pytest.fixture(scope="module")
def soft(trained_once, tmp_path_factory) -> Path:
    run = trained_once(*LONGER, "mechanism=soft", "model.encoder=bidirectional")
    return Path(shutil.copytree(run, tmp_path_factory.mktemp("copy") / "run"))


def chosen(name: str) -> list[str]:
    return [f"policy={name}", *(f"policy.{key}={v}" for key, v in POLICIES[name].items())]


def evaluated(run: Path, *overrides: str) -> Path:
    before = {*(run / "evaluation").glob("*/scores.json")}
    evaluate(configuration("evaluate", f"checkpoint={run}", "device=cpu", *overrides))
    (new,) = {*(run / "evaluation").glob("*/scores.json")} - before
    return new.parent


def words(folder: Path) -> list[Instance]:
    return [replace(one, elapsed=()) for one in read_instances(folder / "instances.log")]


@every_policy
def test_an_evaluation_in_batches_is_one_word_by_word(soft: Path, name: str) -> None:
    batches = evaluated(soft, *chosen(name))
    stream = evaluated(soft, *chosen(name), "word_ms=1e6")  # so slow that computing is nothing
    assert words(batches) == words(stream)
    for one in read_instances(stream / "instances.log"):
        assert one.elapsed == pytest.approx(one.delays, abs=0.01)
    scores, other = (read_record(place / "scores.json", Scores) for place in (batches, stream))
    assert (scores.erasure is None) == (name != "retranslation")
    assert scores.figures == other.figures
    assert scores.erasure == other.erasure
    assert other.computing_ms is not None


CURVES = {
    "confidence": ("gamma", 0.3, ["mechanism=sm2", "model.encoder=bidirectional"],
                   "mechanism=soft has no confidence: .*mechanism=sm2"),
    "newest_token": ("threshold", 0.2, ["mechanism=emma"],
                     "mechanism=soft has none: .*mechanism=emma"),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("name", CURVES)
def test_a_model_that_says_when_it_is_sure_is_a_curve(trained_once, soft: Path, name: str) -> None:
    dial, value, trained, refusal = CURVES[name]
    run = trained_once(*LONGER, *trained)
    asked = [f"policy={name}", f"policy.{dial}={value}"]
    folders = [evaluated(run, f"policy={name}", f"policy.{dial}={p}") for p in (0.0, 1.0)]
    early, late = (read_record(folder / "scores.json", Scores) for folder in folders)
    assert float(early["paper", "word"]["DAL"]) < float(late["paper", "word"]["DAL"])
    with pytest.raises(UserError, match=refusal):
        evaluated(soft, *asked)


@pytest.mark.slow
def test_drafts_may_come_from_a_beam(soft: Path) -> None:
    shutil.rmtree(soft / "evaluation", ignore_errors=True)
    batches = evaluated(soft, *chosen("local_agreement"), "beam=3")
    stream = evaluated(soft, *chosen("local_agreement"), "beam=3", "word_ms=100")
    assert words(batches) == words(stream)
    greedy = evaluated(soft, *chosen("local_agreement"))
    assert words(batches) != words(greedy)
    labels = {label for run in find_runs(soft).runs for label in run.dials()}
    assert labels == {"n=1", "beam=3"}


def test_an_offline_run_and_its_policies_are_lines_of_a_report(
    soft: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.rmtree(soft / "evaluation", ignore_errors=True)
    for n in (1, 3):
        evaluated(soft, "policy=local_agreement", f"policy.n={n}")
    evaluated(soft, "policy=retranslation")
    assert "normalised erasure" in capsys.readouterr().out
    runs = find_runs(soft).runs
    retracted = [row["erasure"] for row in curve_rows(runs, []) if row["policy"] == "retranslation"]
    assert retracted[0] >= 0
    assert "erasure" not in curve_rows([run for run in runs if not run.policy], [])[0]
    assert {run.offline for run in runs if not run.policy} == {True}
    lines = {line.name: line for line in curve_series(runs, "DAL")}
    assert [*lines] == ["soft", "soft + local_agreement", "soft + retranslation"]
    assert [lines[name].offline for name in lines] == [True, False, False]
    assert {point.label for point in lines["soft + local_agreement"].points} == {"n=1", "n=3"}
    assert sum(not run.is_decoding for run in runs) == 1


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (["policy=align_att", "policy.layer=9"], r"policy=align_att does.*layer=9, but 1 layers"),
        (["policy=wait_k", "beam=3"], r"beam=3 with policy=wait_k, which decides word by word"),
    ],
)
def test_what_cannot_be_is_refused_in_one_line(
    soft: Path, overrides: list[str], message: str
) -> None:
    with pytest.raises(UserError, match=message):
        evaluated(soft, *overrides)


def test_a_dial_of_a_mechanism_that_does_not_decide_is_refused(trained_once) -> None:
    trained = checkpoint.load(trained_once("mechanism=mma_il"))
    with pytest.raises(UserError, match=r"dial\.threshold=0\.6 with policy=newest_token, which"):
        trained.build({"threshold": 0.6}, NewestToken(threshold=0.3))
    trained.build(policy=NewestToken(threshold=0.3))


def test_a_policy_that_does_not_suit_warns_once(trained_once, capfd) -> None:
    """In each program, and for all evaluations of a sweep."""
    warn.cache_clear()  # whatever came before
    trained = checkpoint.load(trained_once("mechanism=mma_il"))
    for n in (2, 3):
        trained.build(policy=LocalAgreement(n))
    trained.build()
    (line,) = capfd.readouterr().err.splitlines()
    assert line.startswith("warning: mechanism=mma_il decides by itself when to read")
