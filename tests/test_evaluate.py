"""Scoring other text than a split, and with another k, through `evaluate.py`."""

import gzip
import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from commands import type_in
from simulmt.analysis.runs.found import find_runs
from simulmt.analysis.tables.points import curve_series
from simulmt.data.pairs import FilePair
from simulmt.data.reader import read_pairs
from simulmt.decoding.policies import POLICIES
from simulmt.decoding.policy import DraftPolicy
from simulmt.errors import UserError
from simulmt.files.instances import read_instances
from simulmt.options import construct
from simulmt.programs.evaluate import evaluate
from simulmt.programs.evaluate_options import EvaluateOptions
from simulmt.programs.export import export
from simulmt.programs.plain import plain
from simulmt.scoring.scores import Decoding, Scores, Text
from simulmt.system.disk import read_record
from small_runs import LONGER, ROOT, configuration

pytestmark = pytest.mark.usefixtures("no_pictures")


@pytest.fixture(scope="module")
def finished(trained_once, tmp_path_factory) -> Path:
    run = trained_once(*LONGER, "mechanism=wait_k")
    return Path(shutil.copytree(run, tmp_path_factory.mktemp("copy") / "run"))


@pytest.fixture(scope="module")
def files(finished, tmp_path_factory) -> list[str]:
    """The test set again, as other text: with an empty pair, odd spaces, and one side packed."""
    folder = tmp_path_factory.mktemp("text")
    source, target = folder / "news.2014.de.gz", folder / "news.2014.en"
    instances = read_instances(finished / "instances.log")
    source.write_bytes(gzip.compress("\n".join(["", *(i.source for i in instances)]).encode()))
    target.write_text("\n".join(["nothing", *(f" {i.reference}\t\r" for i in instances)]))
    return [f"source={source}", f"target={target}"]


@pytest.fixture(scope="module")
def given_away(finished, tmp_path_factory) -> Callable[..., Path]:
    """Exports the model with a change of its configuration."""
    whole = tmp_path_factory.mktemp("export") / "whole"
    export(configuration("export", f"checkpoint={finished}", f"to={whole}"))

    def changed(folder: Path, **groups: dict) -> Path:
        shutil.copytree(whole, folder)
        described = json.loads((folder / "config.json").read_text())
        described["config"] |= groups
        del described["sha256"]
        (folder / "config.json").write_text(json.dumps(described))
        return folder

    return changed


def scored(run: Path, name: str, *overrides: str) -> Scores:
    evaluate(configuration("evaluate", f"checkpoint={run}", "device=cpu", *overrides))
    return read_record(run / "evaluation" / name / "scores.json", Scores)


def test_a_test_set_given_as_files_scores_as_the_split(finished, files, capsys):
    split = read_record(finished / "test_scores.json", Scores)
    scores = scored(finished, "news.2014-best", *files)
    places = [option.partition("=")[2] for option in files]
    digests = read_pairs([FilePair(*map(Path, places))]).sha256
    text = Text(*places, digests, {"empty": 1, "too_long": 0})
    assert scores.decoding == replace(split.decoding, split="news.2014", text=text)
    assert replace(scores, decoding=None) == replace(
        split, decoding=None, oracle={}, faithfulness={}
    )
    again = finished / "evaluation" / "news.2014-best" / "instances.log"
    one, other = (
        [(i.source, i.reference, i.prediction, i.delays) for i in read_instances(path)]
        for path in (again, finished / "instances.log")
    )
    assert one == other
    said = capsys.readouterr().out
    assert "dropped from news.2014: 1 empty" in said
    assert "wait_k on news.2014" in said


def test_files_need_none_of_the_data_of_the_run(given_away, tmp_path):
    gone = {"corpus": "text", "root": "/nowhere", "batch_tokens": 300}
    folder = given_away(tmp_path / "given_away", data=gone)
    (tmp_path / "one.de").write_text("der Mann\n")
    (tmp_path / "one.en").write_text("the man\n")
    options = [f"source={tmp_path / 'one.de'}", f"target={tmp_path / 'one.en'}", "text=mine"]
    scores = scored(folder, "mine-word_ms9", *options, "word_ms=9", "batch_tokens=50")
    assert scores.sentences == 1
    assert scores.decoding.word_ms == 9


def test_other_text_needs_another_name(given_away, tmp_path):
    folder, names = given_away(tmp_path / "given_away"), ("one.de", "one.en", "two.de", "two.en")
    for name in names:
        (tmp_path / name).write_text(f"{name}\n")
    one, two = (
        [f"source={tmp_path / source}", f"target={tmp_path / target}", "text=mine"]
        for source, target in (names[:2], names[2:])
    )
    before = scored(folder, "mine", *one)
    for more in ([], ["++dial.k=2"]):  # under the same dials, and under others
        with pytest.raises(UserError, match=r"evaluation/mine has other text: .* text=NAME"):
            scored(folder, "mine", *two, *more)
    assert scored(folder, "mine", *one) == before
    swapped = [f"source={tmp_path / 'one.en'}", f"target={tmp_path / 'one.de'}", "text=other"]
    with pytest.raises(UserError, match="the model translates de to en: swap them"):
        scored(folder, "other", *swapped)
    scored(folder, "mine-k2", *one, "++dial.k=2")
    scored(folder, "mine-too", *two[:2], "text=mine-too")
    scored(folder, "mine", *one)


def test_wait_k_with_another_k(finished):
    split = read_record(finished / "test_scores.json", Scores)
    same = scored(finished, "test-best-k3", "++dial.k=3")
    assert same == replace(split, decoding=replace(split.decoding, dials={"k": 3}))
    later = scored(finished, "test-best-k6", "++dial.k=6")
    assert later.decoding == Decoding("best", "test", 1, dials={"k": 6})
    assert [run.dials() for run in find_runs(finished).runs] == [["k=3"], ["k=6"]]
    first = [i.delays[0] for i in read_instances(finished / "instances.log") if i.delays]
    later = read_instances(finished / "evaluation" / "test-best-k6" / "instances.log")
    assert sum(i.delays[0] for i in later if i.delays) > sum(first)


def test_a_dial_and_an_option_of_the_same_name_are_two_changes():
    chosen = ["checkpoint=x", "policy=newest_token", "policy.threshold=0.3", "++dial.threshold=0.6"]
    options = construct(EvaluateOptions, plain(configuration("evaluate", *chosen)), "")
    assert options.changes == {"policy": "newest_token", "threshold": 0.3, "dial.threshold": 0.6}


def test_an_option_of_a_policy_may_have_a_name_of_ours(monkeypatch, tmp_path):
    @dataclass(frozen=True)
    class Own(DraftPolicy):
        beam: int
        rules: str

        def commit(self, counts, drafts):
            return 0

    monkeypatch.setitem(POLICIES, "mine", Own)
    config = plain(configuration("evaluate", "checkpoint=x"))
    config["policy"] = {"name": "mine", "beam": 3, "rules": "a/b.json"}
    options = construct(EvaluateOptions, config, "")
    assert options.changes == {"policy": "mine", "policy.beam": 3, "rules": "a/b.json"}
    trained = SimpleNamespace(path=tmp_path, home=tmp_path)
    assert options.folder(trained).name == "test-policymine-policy.beam3-rulesa-b.json"


def test_several_values_at_once_leave_nothing_but_their_evaluations(finished, tmp_path):
    run, here = tmp_path / "run", tmp_path / "here"
    shutil.copytree(finished, run, ignore=shutil.ignore_patterns("evaluation"))
    here.mkdir()
    before = {*run.rglob("*")}
    command = [ROOT / "evaluate.py", "-m", "dial.k=1,3,5", "device=cpu", f"checkpoint={run}"]
    (done,) = type_in(command, cwd=here)
    assert done.status == 0, done.err
    assert done.out.count("LAAL") == 1, "one table for all"
    assert all(f"wait_k on test k={k}" in done.out for k in (1, 3, 5))
    new = {*run.rglob("*")} - before
    assert {path.relative_to(run).parts[0] for path in new} == {"evaluation"}
    assert [*here.iterdir()] == []
    runs = find_runs(tmp_path).runs
    assert sorted(dial for run in runs for dial in run.dials()) == ["k=1", "k=3", "k=5"]
    (line,) = curve_series(runs, "DAL")
    assert (line.name, len(line.points)) == ("wait_k", 3)


def test_what_is_finished_has_its_table_although_the_next_one_is_rejected(finished, tmp_path):
    one, other = (shutil.copytree(finished, tmp_path / name) for name in ("one", "other"))
    command = [ROOT / "evaluate.py", "-m", "dial.k=1,3", "beam=1,9", "device=cpu"]
    (done,) = type_in([*command, f"checkpoint={one},{other}"], cwd=tmp_path)
    assert (done.status, done.err.count("error: ")) == (2, 1)
    assert done.out.count("LAAL") == 1
    assert done.out.count("wait_k on test k=1 beam=1") == 2, "a row for each checkpoint"


@pytest.mark.parametrize(
    ("overrides", "named"),
    [
        ("source=a.de", "source=a.de and target=None"),
        ("text=news", "text=news"),
        ("source=a.de target=a.en split=valid", "split=valid with source=a.de"),
        ("source=a.de target=a.en text=b/c", "text is 'b/c'"),
        ("source=test.de.zst target=a.en", "text is 'test'"),
        ("word_ms=3 length_penalty=0.6", r"length_penalty=0.6 .* word_ms=3"),
        ("+mechanism.k=5", "option mechanism"),
    ],
)
def test_a_mistake_in_the_command_is_named_before_anything_is_loaded(overrides, named):
    with pytest.raises(UserError, match=named):
        evaluate(configuration("evaluate", "checkpoint=nowhere", *overrides.split()))


@pytest.mark.parametrize(
    ("mechanism", "k", "named"),
    [
        ("wait_k", "two", r"dial\.k.* is 'two'"),
        ("soft", "5", "dial.k=5 with mechanism=soft"),
        ("mma_il", "5", r"dial.k=5 with mechanism=mma_il.*threshold"),
    ],
)
def test_k_is_an_error_where_it_says_nothing(mechanism, k, named, given_away, tmp_path):
    chosen = plain(configuration("train", f"mechanism={mechanism}"))["mechanism"]
    folder = given_away(tmp_path / "given_away", mechanism=chosen)
    with pytest.raises(UserError, match=named):
        scored(folder, "", f"++dial.k={k}")
