"""Batched simultaneous decoding against batched greedy decoding of the whole sentence.

    python benchmarks/decoding.py [--repeats 7]

Measures `simulmt.decoding.greedy` with 128 sentences of 8 to 24 subwords and random weights, on one
CPU thread, as time per subword written. The row of EOS is zero, so its logit is 0 and never the
highest. Every sentence therefore ends at its length limit, and sentences leave the batch one after
another, as with trained weights.
"""

from __future__ import annotations

import functools

import torch
from frame import Result, alone, in_turns, one_thread, ratios, summed_up
from steps import model, settings, vocabulary

from simulmt.decoding.greedy import greedy
from simulmt.models.model import Model
from simulmt.models.transformer import Transformer
from simulmt.models.vocabulary import Vocabulary

BATCH, SHORTEST, LONGEST = 128, 8, 24
MECHANISMS = ("mma_il", "wait_k", "mma_h", "itst", "wait_info", "hmt")
TARGET, TARGETS = 1.4, {"hmt": 1.6}  # HMT computes several states of each token


def sources(sentences: int, words: Vocabulary) -> torch.Tensor:
    rows = torch.randint(words.eos + 1, words.size, (sentences, LONGEST))
    ends = torch.linspace(SHORTEST, LONGEST, sentences).long()[:, None] - 1
    places = torch.arange(LONGEST)
    return rows.masked_fill(places == ends, words.eos).masked_fill(places > ends, words.pad)


def endless(mechanism: str, size: str = "transformer_multi30k") -> Model:
    """A model that never writes EOS before its length limit."""
    network = model(settings(size, "multi30k_deen", mechanism)).eval()
    assert isinstance(network, Transformer)
    with torch.no_grad():
        network.embedding.weight[network.vocabulary.eos] = 0
    return network


def written(network: Model, source: torch.Tensor) -> int:
    return sum(
        len(found.tokens) for found in greedy(network, source, source != network.vocabulary.pad)
    )


def measure(repeats: int) -> list[Result]:
    one_thread()
    config = settings("transformer_multi30k", "multi30k_deen", "soft")
    source = sources(BATCH, vocabulary(config))
    networks = {name: endless(name) for name in ("soft", *MECHANISMS)}
    counts = {name: written(network, source) for name, network in networks.items()}
    runs = {name: functools.partial(written, network, source) for name, network in networks.items()}
    times = in_turns(runs, repeats)
    results = []
    for name in MECHANISMS:
        share = counts["soft"] / counts[name]
        found = [ratio * share for ratio in ratios(times[name], times["soft"])]
        what = f"{name}, {counts[name]} subwords: times as long for each as soft"
        results.append(summed_up("decoding", what, found, most=TARGETS.get(name, TARGET)))
    return results


if __name__ == "__main__":
    alone(measure, __doc__)
