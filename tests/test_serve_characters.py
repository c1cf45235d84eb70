"""The server and its page with models whose words are characters."""

from __future__ import annotations

from pathlib import Path

import pytest

from characters import options, write_corpus
from serving import delays_of, running, words_of
from simulmt.errors import UserError
from simulmt.files.instances import read_instances
from simulmt.programs.serve import serve
from simulmt.saved import checkpoint
from small_runs import configuration


@pytest.fixture(scope="module")
def run(trained_once, tmp_path_factory) -> Path:
    folder = tmp_path_factory.getbasetemp() / "text-source-target"
    if not folder.exists():
        folder.mkdir()
        write_corpus(folder)
    return trained_once(*options(folder, "source", "target"), "mechanism=wait_k")


@pytest.fixture(scope="module")
def at(run):
    with running([run]) as server:
        yield server


def test_a_message_may_hold_many_characters(at, run):
    one, *_ = read_instances(run / "instances.log", checkpoint.load(run).subwords.writing)
    client = at.client()
    (model,) = client.greeting["models"]
    assert model["characters"] == [True, True]
    assert all(" " not in example for example in model["examples"])
    steps = client.sentence(one.source.replace(" ", ""))
    assert [step["word"] for step in steps if step["word"]] == one.source.split()
    assert words_of(steps) == one.prediction.split()
    assert tuple(delays_of(steps)) == one.delays
    client.close()


def test_panes_read_the_same_words(run, trained_once):
    words = trained_once("mechanism=multi_path")
    options = [f"checkpoint={run}", f"checkpoint2={words}", "port=0"]
    with pytest.raises(UserError, match=r"differ in data\.characters"):
        serve(configuration("serve", *options))
