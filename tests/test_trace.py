"""What pictures are drawn from, held against the decoding that scores come from."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
import torch

import zoo
from simulmt.analysis.figures.trace import Trace, trace_sentence, trace_tokens
from simulmt.data.corpus import Split
from simulmt.data.subwords import Subwords
from simulmt.decoding.greedy import greedy
from simulmt.scoring.split_decoder import write_down
from zoo import EOS, MECHANISMS

CPU = torch.device("cpu")
TEXTS = ["der alte Bauer geht heim .", "", "Haus", "unbekannt \u4f60 geht"]
TAKES_SOME = ("luong_local_p", "gaussian", "predicted")  # a Gaussian beside the softmax


@pytest.mark.parametrize(("name", "kind"), zoo.pairs(MECHANISMS))
def test_a_record_is_greedy_decoding_with_its_attention(kind, name, monkeypatch):
    # Untrained models write until they are stopped; that takes longer than it tells.
    zoo.limit_length(monkeypatch, lambda read: read + 3)
    model = zoo.model(MECHANISMS[name], kind=kind)
    source, mask = zoo.sentences(3, 9)
    for ids, real, plain in zip(source, mask, greedy(model, source, mask), strict=True):
        hypothesis, end, weights = trace_tokens(model, ids[real].tolist(), CPU)
        assert hypothesis == plain
        T, S = len(plain.tokens), int(real.sum())
        layers = 2 if kind.startswith("transformer") else 1
        heads = len(plain.positions[0]) if plain.positions else 1
        assert weights.shape[::3] == (T, S)
        assert weights.shape[1] == layers
        assert T == 0 or weights.shape[2] * layers == heads
        assert max([0, *plain.delays]) <= end <= S
        _check_weights(name, weights, plain)


def _check_weights(name, weights, hypothesis):
    stood = np.array(hypothesis.positions).reshape(weights.shape[:-1]) > 0
    sums = weights.sum(-1)
    assert (weights >= 0).all()
    assert (sums <= 1 + 1e-12).all()
    assert (sums[~stood] == 0).all()
    if not any(part in name for part in TAKES_SOME):
        # a softmax in float64 over at most nine positions
        np.testing.assert_allclose(sums[stood], 1, rtol=0, atol=1e-12)
    for row, delay in zip(weights, hypothesis.delays, strict=True):
        assert (row[..., delay:] == 0).all()


@pytest.fixture(scope="module")
def subwords():
    text = ["der alte Bauer geht heim .", "the old farmer goes home .", "Haus house garten"] * 5
    return Subwords.train(text, 32)


@pytest.fixture(scope="module", params=["mma_il", "soft", "milk-leaky", "wait_k"])
def traced(request, subwords):
    model = zoo.model(MECHANISMS[request.param], vocabulary=subwords.vocabulary)
    return request.param, [trace_sentence(model, subwords, CPU, text) for text in TEXTS]


def test_the_steps_of_a_trace_go_from_nothing_to_all_of_it(traced):
    for trace in (*traced[1], *(trace.in_words() for trace in traced[1])):
        steps = [*trace.steps()]
        assert steps[0] == (0, 0)
        assert steps[-1] == (trace.end, len(trace.target))
        for before, after in pairwise(steps):
            assert sum(a > b for a, b in zip(after, before, strict=True)) == 1
            written = range(before[1], after[1])
            assert all(trace.delays[i] <= before[0] for i in written)


def test_words_are_read_and_written_as_latency_in_words_counts_them(subwords):
    model = zoo.model(MECHANISMS["mma_il"], vocabulary=subwords.vocabulary)
    for text in TEXTS:
        source = subwords.encode(text)
        hypothesis, *_ = trace_tokens(model, [*source, EOS], CPU)
        scored = write_down(0, Split([text], [""]), hypothesis, subwords)
        trace = trace_sentence(model, subwords, CPU, text).in_words()
        assert len(trace.source) == scored.source_length + 1
        assert len(trace.target) == scored.prediction_length
        assert tuple(min(delay, scored.source_length) for delay in trace.delays) == scored.delays


def test_the_attention_of_words_keeps_its_sums_and_sees_only_what_was_read(traced):
    for trace in traced[1]:
        words = trace.in_words()
        T, S = len(words.target), len(words.source)
        assert words.weights.shape == (T, *trace.weights.shape[1:3], S)
        assert words.stops == (trace.stops and T > 0)
        for i, delay in enumerate(words.delays):
            assert (words.weights[i, ..., delay:] == 0).all()
            rows = [row for row, word in enumerate(trace.target_words, 1) if word == i + 1]
            sums = trace.weights[[row - 1 for row in rows]].sum(-1).mean(0)
            np.testing.assert_allclose(words.weights[i].sum(-1), sums, rtol=0, atol=1e-12)


def test_a_word_has_the_mean_of_its_rows_and_the_sum_of_its_columns():
    trace = Trace(
        line=4,
        source=("▁Bau", "er", "▁geht", "</s>"),
        target=("▁far", "mer", "▁goes"),
        source_words=(1, 1, 2, 3),
        target_words=(1, 1, 2),
        delays=(1, 3, 4),
        end=4,
        positions=((1, 1), (2, 0), (4, 3)),
        weights=np.array([[[[1, 0, 0, 0]]], [[[0.25, 0.25, 0.5, 0]]], [[[0, 0.125, 0.375, 0.5]]]]),
    )
    words = trace.in_words()
    assert (words.source, words.target) == (("Bauer", "geht", "</s>"), ("farmer", "goes"))
    assert (words.delays, words.end, words.line, words.unit) == ((2, 3), 3, 4, "word")
    assert words.positions == ((1, 0), (3, 2))
    assert words.weights[:, 0, 0].tolist() == [[0.75, 0.25, 0], [0.125, 0.375, 0.5]]
    assert words.in_words().weights.tolist() == words.weights.tolist()
