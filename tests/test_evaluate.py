"""Scoring other text than a split, and with another k, through `evaluate.py`."""

from __future__ import annotations

import gzip
import json
import os
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from simulmt.analysis.points import curve_series
from simulmt.analysis.runs import find_runs
from simulmt.data.files import FilePair
from simulmt.data.reader import read_pairs
from simulmt.errors import UserError
from simulmt.files.instances import read_instances
from simulmt.programs.evaluate import evaluate
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
def files(finished, tmp_path_factory) -> tuple[Path, Path]:
    """The test set again, as other text: with an empty pair, odd spaces, and one side packed."""
    folder = tmp_path_factory.mktemp("text")
    source, target = folder / "news.2014.de.gz", folder / "news.2014.en"
    instances = read_instances(finished / "instances.log")
    source.write_bytes(gzip.compress("\n".join(["", *(i.source for i in instances)]).encode()))
    lines = ["nothing", *(f" {i.reference}\t\r" for i in instances)]
    target.write_bytes("\n".join(lines).encode())
    return source, target


def given(files: tuple[Path, Path]) -> list[str]:
    return [f"{side}={path}" for side, path in zip(("source", "target"), files, strict=True)]


def scored(run: Path, name: str, *overrides: str) -> Scores:
    evaluate(configuration("evaluate", f"checkpoint={run}", "device=cpu", *overrides))
    return read_record(run / "evaluation" / name / "scores.json", Scores)


def test_a_test_set_given_as_files_scores_as_the_split(finished, files, capsys):
    split = read_record(finished / "test_scores.json", Scores)
    scores = scored(finished, "news.2014-best", *given(files))
    digests = read_pairs([FilePair(*files)]).sha256
    text = Text(*map(str, files), digests, {"empty": 1, "too_long": 0})
    assert scores.decoding == replace(split.decoding, split="news.2014", text=text)
    assert replace(scores, decoding=None) == replace(split, decoding=None, oracle={})
    again = finished / "evaluation" / "news.2014-best" / "instances.log"
    one, other = (
        [(i.source, i.reference, i.prediction, i.delays) for i in read_instances(path)]
        for path in (again, finished / "instances.log")
    )
    assert one == other
    said = capsys.readouterr().out
    assert "dropped from news.2014: 1 empty" in said
    assert "wait_k on news.2014" in said


def test_files_need_none_of_the_data_of_the_run(finished, tmp_path):
    folder = tmp_path / "given_away"
    export(configuration("export", f"checkpoint={finished}", f"to={folder}"))
    config = json.loads((folder / "config.json").read_text())
    config["config"]["data"] |= {"corpus": "text", "root": "/nowhere"}
    del config["sha256"]
    (folder / "config.json").write_text(json.dumps(config))
    files = tmp_path / "one.de", tmp_path / "one.en"
    files[0].write_text("der Mann\n")
    files[1].write_text("the man\n")
    options = ["text=mine", "word_ms=9", "batch_tokens=50"]
    scores = scored(folder, "mine-given_away-word_ms9", *given(files), *options)
    assert scores.sentences == 1
    assert scores.decoding.word_ms == 9


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


def test_several_values_at_once_leave_nothing_but_their_evaluations(finished, tmp_path):
    run, here = tmp_path / "run", tmp_path / "here"
    shutil.copytree(finished, run)
    shutil.rmtree(run / "evaluation", ignore_errors=True)
    here.mkdir()
    before = sorted(run.rglob("*"))
    command = [sys.executable, str(ROOT / "evaluate.py"), "-m", "dial.k=1,3,5", "device=cpu"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "TMPDIR": str(here)}
    done = subprocess.run(
        [*command, f"checkpoint={run}"], env=environment, cwd=here, check=False, timeout=300,
        capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("LAAL") == 1, "one table for all"
    assert all(f"wait_k on test k={k}" in done.stdout for k in (1, 3, 5))
    new = [path for path in sorted(run.rglob("*")) if path not in before]
    assert {path.relative_to(run).parts[0] for path in new} == {"evaluation"}
    assert [path.name for path in (run / "evaluation").iterdir()] != []
    assert [*here.iterdir()] == []
    runs = find_runs(tmp_path).runs
    assert sorted(dial for run in runs for dial in run.dials()) == ["k=1", "k=3", "k=5"]
    (line,) = curve_series(runs, "DAL")
    assert (line.name, len(line.points)) == ("wait_k", 3)


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (["source=a.de"], "source=a.de and target=None: give both"),
        (["target=a.en"], "source=None and target=a.en: give both"),
        (["text=news"], "text=news .*source=FILE target=FILE or split=sacrebleu:NAME"),
        (["source=a.de", "target=a.en", "split=valid"], "split=valid with source=a.de"),
        (["source=a.de", "target=a.en", "text=b/c"], "text is 'b/c'"),
        (["source=a.de", "target=a.en", "text=''"], "text is ''"),
        (["source=test.de", "target=a.en"], "'test', .* splits"),
        (["source=test.de.zst", "target=a.en"], "'test', .* set text=NAME"),
        (["word_ms=3", "beam=2"], r"beam=2 .* word_ms=3"),
        (["word_ms=3", "length_penalty=0.6"], "length_penalty=0.6 .* word_ms=3"),
        (["batch_tokens=0"], "batch_tokens is 0"),
        (["word_ms=1e-300"], "word_ms is 1e-300"),
        (["dial=5"], "dial is 5"),
        (
            ["+mechanism.k=5"],
            "the configuration has no option mechanism; its options are: checkpoint,",
        ),
    ],
)
def test_what_is_wrong_with_the_command_is_said_before_anything_is_loaded(overrides, message):
    with pytest.raises(UserError, match=message):
        evaluate(configuration("evaluate", "checkpoint=nowhere", *overrides))


@pytest.mark.parametrize(
    ("mechanism", "k", "message"),
    [
        ("wait_k", "0", "dial.k is 0"),
        ("wait_k", "two", r"dial\.k.* is 'two'"),
        ("soft", "5", "dial.k=5 with mechanism=soft: it has none; leave dial.k out"),
        ("mma_il", "5", "dial.k=5 with mechanism=mma_il: its dials are threshold; leave dial.k"),
    ],
)
def test_k_is_refused_where_it_says_nothing(mechanism, k, message, finished, tmp_path):
    folder = tmp_path / "given_away"
    export(configuration("export", f"checkpoint={finished}", f"to={folder}"))
    config = json.loads((folder / "config.json").read_text())
    config["config"]["mechanism"] = plain(configuration("train", f"mechanism={mechanism}"))[
        "mechanism"
    ]
    del config["sha256"]
    (folder / "config.json").write_text(json.dumps(config))
    with pytest.raises(UserError, match=message):
        scored(folder, "", f"++dial.k={k}")


def test_sides_of_different_length_are_refused(finished, files, tmp_path):
    short = tmp_path / "short.en"
    short.write_text("one\ntwo\n")
    with pytest.raises(UserError, match=r"short.en ends after line 2, but .*de.gz does not"):
        scored(finished, "", *given((files[0], short)))
