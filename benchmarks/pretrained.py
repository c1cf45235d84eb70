"""A model of OPUS-MT's size, live: milliseconds for running the encoder again and drafting.

    python benchmarks/pretrained.py [--threads 2] [--words 20] [--sentences 10]

The model has 6 + 6 layers of width 512 and a vocabulary of 58,101 subwords (opus-mt-de-en). The
weights are random, but no figure depends on them: a draft ends when it has as many subwords as the
source. Words have 1.4 subwords on average. A read is a source word or the end of a sentence.
`suite.py` measures what weights of 8 bits do to a read, on one thread.
"""

from __future__ import annotations

import argparse
import math
import time
from functools import partial
from itertools import pairwise
from typing import Any
from unittest.mock import patch

import numpy as np
import torch
from frame import ROOT, Result, in_turns, one_thread, ratios, summed_up
from hydra import compose, initialize_config_dir
from rich.console import Console
from rich.table import Table

from simulmt.decoding.by_policy import PolicyStream
from simulmt.decoding.policy import Policy
from simulmt.errors import UserError
from simulmt.models.eight_bit import round_weights
from simulmt.models.model import Model
from simulmt.models.projection import by_columns
from simulmt.models.vocabulary import Vocabulary
from simulmt.parts.builders import build_mechanism, build_model, build_policy
from simulmt.programs.plain import plain

SIZE = 58_101
SUBWORDS_A_WORD = 1.4
POLICIES = ("policy=wait_k", "policy=align_att policy.f=4", "policy=local_agreement")
LIVE = {"policy=wait_k": 0.34, "policy=local_agreement": 0.46}
"""Limits on the time of a read, relative to float32 with the output matrix row by row."""
WORDS = 12


def opus_mt(laid_out: bool = True, subwords: float = SUBWORDS_A_WORD) -> Model:
    """A model that `simulmt import` could have read, with random weights, which never writes EOS.

    Args:
        laid_out: the output matrix by columns, as in any trained model that is loaded.
        subwords: the subwords of a word.
    """
    torch.manual_seed(1)
    options = composed("train", "model=opus_mt", "mechanism=soft")
    begins = tuple(np.random.default_rng(1).random(SIZE) < 1 / subwords)
    vocabulary = Vocabulary(SIZE, begins=tuple(map(bool, begins)))
    model = build_model(options["model"], build_mechanism(options["mechanism"]), vocabulary).eval()
    with torch.no_grad():
        bias = model.get_parameter("output_bias")
        bias[[vocabulary.pad, vocabulary.bos, vocabulary.eos]] = -1e4
    if laid_out:
        model.load_state_dict(by_columns(model.state_dict(), model, SIZE), assign=True)
    return model


def rounds(model: Model) -> bool:
    """Round the weights to 8 bits; False if the processor has no such products."""
    try:
        round_weights(model)
    except UserError as error:
        print(error)
        return False
    return True


def composed(program: str, *overrides: str) -> dict[str, Any]:
    """The configuration of a program."""
    with initialize_config_dir(str(ROOT / "conf"), version_base="1.3"):
        return plain(compose(program, [*overrides]))


def words(vocabulary: Vocabulary, count: int, seed: int) -> list[list[int]]:
    """A sentence of random words, and EOS."""
    ends = np.ceil(np.arange(count + 1) * SUBWORDS_A_WORD).astype(int)
    tokens = np.random.default_rng(seed).integers(4, SIZE, ends[-1]).tolist()
    return [*(tokens[start:end] for start, end in pairwise(ends)), [vocabulary.eos]]


def policy_of(overrides: str) -> Policy:
    """The policy that some options of `evaluate` choose."""
    policy = build_policy(composed("evaluate", "checkpoint=none", *overrides.split())["policy"])
    assert policy is not None, "the policies above are not the model's own"
    return policy


def reads(model: Model, overrides: str, count: int, sentences: int) -> list[float]:
    """The milliseconds of each read of some sentences."""
    policy, times = policy_of(overrides), list[float]()
    for seed in range(sentences + 1):
        stream = PolicyStream(model, policy)
        for word in words(model.vocabulary, count, seed):
            started = time.perf_counter()
            stream.read_word(word)
            times.append((time.perf_counter() - started) * 1000)
    return times[count + 1 :]  # without the first sentence, which warms up


def whole(model: Model, policy: Policy) -> None:
    """Read a sentence word by word."""
    stream = PolicyStream(model, policy)
    for word in words(model.vocabulary, WORDS, 0):
        stream.read_word(word)


def measure(repeats: int) -> list[Result]:
    """Reads with the output matrix by columns, and with weights of 8 bits.

    A word is a subword, so that all write equally much, whatever they write.
    """
    one_thread()
    usual, results = "float32 by rows", list[Result]()
    models = {name: opus_mt(laid_out=False, subwords=1) for name in (usual, "int8")}
    models["float32"] = opus_mt(subwords=1)
    if not rounds(models["int8"]):
        del models["int8"]
    with patch.object(Model, "length_limit", staticmethod(lambda read: read)):
        for overrides, most in LIVE.items():
            policy = policy_of(overrides)
            contestants = {name: partial(whole, model, policy) for name, model in models.items()}
            times = in_turns(contestants, repeats, warm_up=1)
            for name in ("float32", "int8"):
                found = ratios(times[name], times[usual]) if name in times else [math.nan]
                what = f"{overrides}, {name}, a sentence of {WORDS} words: time of {usual}"
                results.append(summed_up("live reads", what, found, most=most))
    return results


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--words", type=int, default=20, help="words of a sentence")
    parser.add_argument("--sentences", type=int, default=10)
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    model = opus_mt()
    table = Table("policy", "ms a read\nmedian", "95%", "last word", "ms a source word,\nmean")
    with patch.object(Model, "length_limit", staticmethod(lambda read: read)):
        for overrides in POLICIES:
            times = np.array(reads(model, overrides, given.words, given.sentences))
            last = times.reshape(given.sentences, -1)[:, -2]
            figures = (np.median(times), np.quantile(times, 0.95), np.median(last))
            each = times.sum() / given.sentences / given.words
            table.add_row(overrides, *(f"{value:.0f}" for value in (*figures, each)))
    Console(width=120).print(table)


if __name__ == "__main__":
    main()
