"""The live translator against batched decoding, on a briefly trained checkpoint."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from simulmt.data.subwords import Subwords
from simulmt.files.instances import read_instances
from simulmt.live.translator import Translator
from simulmt.parts.configuration import Setup
from simulmt.saved import checkpoint
from small_runs import LONGER


@pytest.fixture(
    scope="module",
    params=["mechanism=mma_il", pytest.param("mechanism=wait_k", marks=pytest.mark.slow)],
)
def finished(request, trained_once) -> Path:
    return trained_once(*LONGER, request.param)


def test_live_words_are_those_of_the_batch(finished, request):
    translator = Translator.load(finished, device="cpu")
    early = 0
    for instance in read_instances(finished / "instances.log"):
        translator.reset()
        written: list[str] = []
        for count, word in enumerate(instance.source.split(), start=1):
            new = translator.read(word)
            written += new
            # decided no earlier than its last subword was written
            assert all(d <= count for d in instance.delays[len(written) - len(new) : len(written)])
            early += len(new)
        written += translator.finish()
        assert " ".join(written) == instance.prediction
        assert written == translator.words_written
    if "wait_k" in request.node.name:
        assert early, "without early words this says nothing"


def test_a_sentence_may_come_in_any_portions_and_be_empty(finished):
    translator = Translator.load(finished, device="cpu")
    assert translator.read(" ") == []
    whole = translator.finish()
    translator.reset()
    assert translator.finish() == whole
    for portions in (["Der Mann", "schläft ."], ["Der", "Mann", "schläft", "."]):
        translator.reset()
        words = [word for text in portions for word in translator.read(text)] + translator.finish()
        assert " ".join(words) == translator.subwords.decode(translator.stream.written.tokens)


WHAT_IS_LOADED = """
import sys
import simulmt.live.translator
print({"hydra", "omegaconf", "pytorch_lightning", "wandb"} & {*sys.modules})
from simulmt.analysis import report
from simulmt.programs import align, analyse, evaluate, export, translate
print({"pytorch_lightning", "lightning", "wandb"} & {*sys.modules})
"""


def test_translating_needs_no_hydra_and_only_training_needs_lightning():
    command = [sys.executable, "-c", WHAT_IS_LOADED]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout == "set()\nset()\n"


def test_the_digest_of_a_model_is_of_all_that_decides_its_words(trained_once):
    trained = checkpoint.load(trained_once("mechanism=wait_k"))
    name = max(trained.weights)
    config = {**trained.config, "mechanism": {**trained.config["mechanism"], "k": 9}}
    other = Subwords.train([f"{n} other words" for n in range(200)], 40)
    changed = [
        replace(trained, weights={**trained.weights, name: trained.weights[name] + 1}),
        replace(trained, config=config, setup=Setup.of(config)),
        replace(trained, subwords=other),
        *(replace(trained, weights={name: torch.tensor(gain)}) for gain in (1.0, 2.0)),
    ]
    assert len({one.digest for one in (trained, *changed)}) == 6
    assert replace(trained, path=trained.home).digest == trained.digest
