"""Scoring other text than a split, and with another k, through `evaluate.py`."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from simulmt.decoding.instance import read_instances
from simulmt.errors import UserError
from simulmt.programs.evaluate import evaluate
from simulmt.programs.export import export
from simulmt.programs.plain import plain
from simulmt.programs.train import train
from test_runs import SMALL, configuration

pytestmark = pytest.mark.filterwarnings(
    "ignore:.*LeafSpec.*",  # Lightning's own, of a call that torch renamed
    "ignore:.*Trainer.fit.*weights_only.*",
)


@pytest.fixture(scope="module")
def finished(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("run")
    chosen = [*SMALL, "mechanism=wait_k", f"cache={folder / 'cache'}"]
    train(configuration("train", *chosen), str(folder))
    return folder


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


def scored(run: Path, name: str, *overrides: str) -> dict:
    evaluate(configuration("evaluate", f"checkpoint={run}", "device=cpu", *overrides))
    return json.loads((run / "evaluation" / name / "scores.json").read_text())


def test_a_test_set_given_as_files_scores_as_the_split(finished, files, capsys):
    split = json.loads((finished / "test_scores.json").read_text())
    found = scored(finished, "news.2014-best", *given(files))
    paths = {"source": str(files[0]), "target": str(files[1])}
    assert found.pop("text") == paths | {"dropped": {"empty": 1, "too_long": 0}}
    assert found.items() <= split.items(), "all but what the word alignments tell"
    assert {*split} - {*found} == {"oracle"}
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
    (folder / "config.json").write_text(json.dumps(config))
    files = tmp_path / "one.de", tmp_path / "one.en"
    files[0].write_text("der Mann\n")
    files[1].write_text("the man\n")
    options = ["name=mine", "word_ms=9", "batch_tokens=50"]
    found = scored(folder, "mine-given_away-word_ms9", *given(files), *options)
    assert found["sentences"] == 1
    assert found["decoding"]["word_ms"] == 9


def test_wait_k_with_another_k(finished):
    split = json.loads((finished / "test_scores.json").read_text())
    same = scored(finished, "test-best-k3", "k=3")
    assert same == split | {"decoding": {"beam": 1, "k": 3}}
    found = scored(finished, "test-best-k6", "k=6")
    assert found["decoding"] == {"beam": 1, "k": 6}
    first = [i.delays[0] for i in read_instances(finished / "instances.log") if i.delays]
    later = read_instances(finished / "evaluation" / "test-best-k6" / "instances.log")
    assert sum(i.delays[0] for i in later if i.delays) > sum(first)


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (["source=a.de"], "source is a.de, target None; give both files, or neither"),
        (["target=a.en"], "source is None, target a.en; give both"),
        (["name=news"], "name=news without files; give source=FILE target=FILE"),
        (["source=a.de", "target=a.en"], "a.de cannot be read .No such file.*: check the path"),
        (["source=a.de", "target=a.en", "split=valid"], "split=valid with source=a.de: files are"),
        (["source=a.de", "target=a.en", "data_root=x"], "data_root=x with source=a.de: files are"),
        (["source=a.de", "target=a.en", "name=b/c"], "name is 'b/c'; it is part of a folder's"),
        (["source=a.de", "target=a.en", "name=''"], "name is ''; it is part of a folder's name"),
        (["source=test.de", "target=a.en"], "name is 'test'; .* none of the splits"),
        (["source=test.de.gz", "target=a.en"], "name is 'test'; .* set name=NAME"),
        (["batch_tokens=0"], "batch_tokens is 0; it must be a whole number"),
        (["+mechanism.k=5"], "evaluate.py has no option mechanism; its options are: checkpoint,"),
    ],
)
def test_what_is_wrong_with_the_command_is_said_before_anything_is_loaded(overrides, message):
    with pytest.raises(UserError, match=message):
        evaluate(configuration("evaluate", "checkpoint=nowhere", *overrides))


@pytest.mark.parametrize(
    ("mechanism", "k", "message"),
    [
        ("wait_k", "0", "k is 0; wait-k reads 1 to"),
        ("wait_k", "two", "k is 'two'; it must be of type int"),
        ("soft", "5", "k=5 with mechanism=soft: only wait_k waits for k tokens; leave k out"),
    ],
)
def test_k_is_refused_where_it_says_nothing(mechanism, k, message, finished, tmp_path):
    folder = tmp_path / "given_away"
    export(configuration("export", f"checkpoint={finished}", f"to={folder}"))
    config = json.loads((folder / "config.json").read_text())
    config["config"]["mechanism"] = plain(configuration("train", f"mechanism={mechanism}"))[
        "mechanism"
    ]
    (folder / "config.json").write_text(json.dumps(config))
    with pytest.raises(UserError, match=message):
        scored(folder, "", f"k={k}")


def test_sides_of_different_length_are_refused(finished, files, tmp_path):
    short = tmp_path / "short.en"
    short.write_text("one\ntwo\n")
    with pytest.raises(UserError, match=r"news.2014.de.gz has 24 lines but .*short.en has 2"):
        scored(finished, "", *given((files[0], short)))
