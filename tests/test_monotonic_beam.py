"""The two-stage beam search equals its text, and the ordinary search where prefixes are whole."""

from __future__ import annotations

from functools import cache

import pytest
import torch
from torch import Tensor
from torch.nn.functional import pad

import zoo
from simulmt.decoding.beam import beam_search
from simulmt.decoding.monotonic_beam import monotonic_beam_search
from simulmt.decoding.search import Search
from simulmt.models.model import Model
from zoo import BOS, EOS, PAD

SEARCH = Search(beam=5, length_penalty=0.6)
TEACHERS = {
    "bidirectional transformer": ("transformer", {"encoder": "bidirectional"}),
    "luong": ("luong", {}),
}


def teacher_of(name: str) -> Model:
    kind, options = TEACHERS[name]
    return zoo.model(zoo.options("soft"), seed=3, kind=kind, **options)


@pytest.fixture(scope="module", params=["bidirectional transformer", "luong"])
def teacher(request) -> Model:
    return teacher_of(request.param)


@pytest.fixture(autouse=True)
def short(monkeypatch) -> None:
    """Untrained models rarely end early, and the reference is slow."""
    zoo.limit_length(monkeypatch)


@cache
@torch.inference_mode()
def next_log_p(model: Model, source: tuple[int, ...], written: tuple[int, ...]) -> Tensor:
    """The log P of each token after those written, one decoder step after the other."""
    tokens = torch.tensor([source])
    state = model.start(model.encode(tokens, torch.ones_like(tokens, dtype=torch.bool)))
    for token in (BOS, *written):
        step = model.step(torch.tensor([token]), state)
        state = step.state
    return step.logits[0].double().log_softmax(-1)


def log_p(model: Model, source: tuple[int, ...], written: tuple[int, ...]) -> float:
    """The log P of a hypothesis."""
    return sum(float(next_log_p(model, source, written[:n])[t]) for n, t in enumerate(written))


def by_the_text(model: Model, x: tuple[int, ...], search: Search, k: int) -> list[int]:
    """The search for one sentence, as its description says it."""
    S, W = len(x), search.beam
    limit = int(zoo.short_limit(torch.tensor([S]))[0])
    allowed = [token for token in range(model.vocabulary.size) if token not in (PAD, BOS)]
    live, finished = [()], dict[tuple[int, ...], float]()
    for i in range(1, limit + 2):
        prefix = x[: min(i + k - 1, S)]
        scored = {}
        for hypothesis in live:
            before = log_p(model, prefix, hypothesis)
            following = next_log_p(model, prefix, hypothesis)
            for token in allowed if i <= limit else [EOS]:
                scored[(*hypothesis, token)] = before + float(following[token])
        candidates = sorted(scored, key=scored.__getitem__, reverse=True)[: 2 * W]
        whole = {candidate: log_p(model, x, candidate) for candidate in candidates}
        candidates.sort(key=whole.__getitem__, reverse=True)
        for candidate in candidates[:W]:
            if candidate[-1] == EOS:
                finished[candidate] = whole[candidate] / ((5 + i) / 6) ** search.length_penalty
        live = [candidate for candidate in candidates if candidate[-1] != EOS][:W]
        if len(finished) >= W:
            break
    return [*max(finished, key=finished.__getitem__)[:-1]]


@pytest.mark.parametrize("k", [1, 3])
def test_it_is_what_the_text_says(teacher, k):
    source, mask = zoo.sentences(3, 5)
    found = monotonic_beam_search(teacher, source, mask, Search(2, 0.6), k)
    for row, length, hypothesis in zip(source.tolist(), mask.sum(1).tolist(), found, strict=True):
        assert hypothesis.tokens == by_the_text(teacher, (*row[:length],), Search(2, 0.6), k)
        assert hypothesis.delays == [length] * len(hypothesis.tokens)


@pytest.mark.parametrize("k", [9, 1000])
def test_prefixes_that_are_whole_make_it_the_ordinary_search(teacher, k):
    source, mask = zoo.sentences(5, 9)
    ordinary = beam_search(teacher, source, mask, SEARCH)
    assert monotonic_beam_search(teacher, source, mask, SEARCH, k) == ordinary


def test_short_prefixes_change_what_is_written():
    teacher = teacher_of("bidirectional transformer")
    source, mask = zoo.sentences(12, 9)
    ordinary = beam_search(teacher, source, mask, SEARCH)
    assert monotonic_beam_search(teacher, source, mask, SEARCH, 1) != ordinary


def test_a_sentence_does_not_depend_on_its_batch(teacher):
    source, mask = zoo.sentences(5, 7)
    together = monotonic_beam_search(teacher, source, mask, SEARCH, 2)
    padded = pad(source, (0, 4)), pad(mask, (0, 4))
    assert monotonic_beam_search(teacher, *padded, SEARCH, 2) == together
    for row, length, hypothesis in zip(source, mask.sum(1), together, strict=True):
        alone = row[None, :length]
        assert monotonic_beam_search(teacher, alone, alone != PAD, SEARCH, 2) == [hypothesis]


def test_the_tokens_that_open_a_sentence_are_not_counted_in_k(monkeypatch) -> None:
    zoo.limit_length(monkeypatch)
    teacher = zoo.model(zoo.options("soft"), seed=3, encoder="bidirectional")
    source, mask = zoo.sentences(12, 9)
    plain = [monotonic_beam_search(teacher, source, mask, Search(5, 0.6), k) for k in (1, 2)]
    teacher.vocabulary = teacher.vocabulary._replace(opening=(4,))
    assert monotonic_beam_search(teacher, source, mask, Search(5, 0.6), 1) == plain[1] != plain[0]
