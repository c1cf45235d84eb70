"""Streams without sentence ends: the model ends segments, and the source is cut behind them."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from random import Random
from types import SimpleNamespace

import pytest
import torch
from _pytest.mark import ParameterSet

import zoo
from simulmt.decoding.cuts import CUTS, cut_of
from simulmt.decoding.document import LONGEST, DocumentStream, TranslatedSegment
from simulmt.decoding.history import Before, held
from simulmt.decoding.policies import (
    AlignAtt,
    Confidence,
    HoldN,
    LocalAgreement,
    NewestToken,
    WaitK,
)
from simulmt.decoding.policy import Policy
from simulmt.errors import UserError
from simulmt.models.model import Model
from simulmt.models.transformer import Transformer

LENGTHS = (0, 1, 9, 14)
"""Words of the documents."""


def documents() -> list[list[list[int]]]:
    rng = torch.Generator().manual_seed(1)
    ids = [torch.randint(4, zoo.VOCABULARY, (n,), generator=rng).tolist() for n in LENGTHS]
    return [[[token] for token in document] for document in ids]


@pytest.fixture
def brief(monkeypatch: pytest.MonkeyPatch) -> None:
    """An earlier limit: untrained models rarely end early."""
    zoo.limit_length(monkeypatch)


def translated(
    model: Model, cut: str, together: bool, policy: Policy | None = None
) -> list[list[TranslatedSegment]]:
    """The documents, each read to its end, alone or with the others."""
    words = [[*document, [zoo.EOS]] for document in documents()]
    streams = [DocumentStream(model, CUTS[cut], policy) for _ in words]
    if together:
        for turn in range(max(map(len, words))):
            DocumentStream.read_words(streams, [w[turn] if turn < len(w) else [] for w in words])
    else:
        for stream, own in zip(streams, words, strict=True):
            for word in own:
                stream.read_word(word)
    assert not any(stream.words for stream in streams)
    return [stream.ended() for stream in streams]


def check(streams: Sequence[Sequence[TranslatedSegment]]) -> None:
    """No word is lost, and no delay falls."""
    for segments, document in zip(streams, documents(), strict=True):
        assert [word for segment in segments for word in segment.words] == document
        delays = [delay for segment in segments for delay in segment.written.delays]
        assert all(a <= b for a, b in pairwise(delays))
        assert all(1 <= delay <= len(document) for delay in delays)
        assert [s.read for s in segments] == sorted(s.read for s in segments)


@pytest.mark.usefixtures("brief")
@pytest.mark.parametrize("cut", CUTS)
@pytest.mark.parametrize("mechanism", ["wait_k", "mma_il", "itst", "wait_info"])
def test_streams_with_a_history_together_are_streams_alone(mechanism: str, cut: str) -> None:
    model = zoo.model(zoo.options(mechanism), 0, boundaries=True, history=12)
    alone, together = (translated(model, cut, joined) for joined in (False, True))
    check(alone)
    assert alone == together


@pytest.mark.parametrize("history", [3, 7, 12])
def test_a_history_is_as_long_as_fits(history: int) -> None:
    draw, lengths = Random(0), set[int]()
    for _ in range(50):
        drawn = [(draw.randint(0, 3), draw.choice([None, 0, 1, 3])) for _ in range(8)]
        before = [Before([4] * s, None if t is None else [4] * t) for s, t in drawn]
        fits = [
            n
            for n in range(9)
            if sum(len(one.source) for one in before[n:]) <= history
            and sum(len([*one.target, zoo.EOS]) for one in before[n:] if one.target is not None)
            <= history
        ]
        found = held(SimpleNamespace(history=history), before)
        assert found == before[fits[0] :]
        lengths.add(len(found))
    assert len(lengths) > 2


@pytest.mark.usefixtures("brief")
def test_a_history_holds_the_newest_segments() -> None:
    """As many as fit on both sides; the memory of a stream is bounded."""
    model = zoo.model(zoo.options("mma_il"), 0, boundaries=True, history=12)
    stream, segments, fitted = DocumentStream(model, CUTS["pointer"]), [], 0
    for number in range(60):
        stream.read_word([4 + number % 9])
        segments += stream.ended()
        if (past := stream.past) is None:
            continue
        fitted += 1
        read = [token for segment in segments for word in segment.words for token in word]
        written = [token for one in segments for token in [*one.written.tokens, zoo.EOS]]
        sides = past.source[0].tolist(), past.target[0].tolist()
        assert max(map(len, sides)) <= 12
        assert (read[-len(sides[0]) :], written[-len(sides[1]) :]) == sides
    assert fitted


FOUR = ("wait_k", "mma_il", "milk", "itst")
"""Mechanisms of the fast suite, whose untrained models end segments."""


def every_pair() -> list[ParameterSet]:
    """Each mechanism that streams on each kind of model."""
    pairs = zoo.pairs(name for name in zoo.STREAMING if "-" not in name)
    return [
        pair if pair.values[0] in FOUR else pytest.param(*pair.values, marks=pytest.mark.slow)
        for pair in pairs
    ]


@pytest.mark.usefixtures("brief")
@pytest.mark.parametrize("cut", CUTS)
@pytest.mark.parametrize(("mechanism", "kind"), every_pair())
def test_streams_together_are_streams_alone(mechanism: str, kind: str, cut: str) -> None:
    pointing = {} if kind == zoo.REENCODING else {"boundaries": True}
    model = zoo.model(zoo.options(mechanism), 0, kind, **pointing)
    if (cut == "pointer" and model.boundary is None) or (mechanism == "hmt" and cut != "reading"):
        pytest.skip("no pointer, or several states of a token")
    alone, together = (translated(model, cut, joined) for joined in (False, True))
    check(alone)
    assert alone == together
    if mechanism in FOUR and cut != "reading":
        assert any(len(segments) > 1 for segments in alone)


WRITING = {
    "wait_k": (WaitK(k=2), "soft", {}),
    "hold_n": (HoldN(n=0), "soft", {"encoder": "bidirectional"}),
    "local_agreement": (LocalAgreement(n=2), "soft", {"encoder": "by_word"}),
    "align_att": (AlignAtt(f=1), "soft", {"encoder": "bidirectional"}),
    "confidence": (Confidence(gamma=0.5), "sm2", {}),
    "newest_token": (NewestToken(threshold=0.3), "mma_il", {}),
}


@pytest.mark.usefixtures("brief")
@pytest.mark.parametrize("cut", ["pointer", "likelihood"])
@pytest.mark.parametrize("name", WRITING)
def test_a_policy_ends_sentences(name: str, cut: str) -> None:
    """Untrained models rarely end a sentence, so EOS is made likelier."""
    policy, mechanism, options = WRITING[name]
    sizes = {"boundaries": True, "output_bias": True, **options}
    model = zoo.model(zoo.options(mechanism), 0, **sizes)
    assert isinstance(model, Transformer)
    assert model.output_bias is not None
    with torch.no_grad():
        model.output_bias[zoo.EOS] = 1.5
    alone, together = (translated(model, cut, joined, policy) for joined in (False, True))
    check(alone)
    assert alone == together
    with torch.no_grad():
        model.output_bias[zoo.EOS] = 8
    stream = DocumentStream(model, CUTS[cut], policy)
    for number in range(30):
        stream.read_word([4 + number % 9])
    assert len(stream.ended()) > 1, "before the stream ends"


def test_a_cut_sees_the_end_of_the_stream_as_the_decoder_did() -> None:
    """Whose last segment ends in EOS, in training too; no cut goes beyond the words."""
    seen = list[Sequence[Sequence[int]]]()

    def cut(model: Model, words: Sequence[Sequence[int]], *_: object) -> int:
        seen.append([*words])
        return len(words)

    stream = DocumentStream(zoo.model(zoo.options("wait_k"), 0), cut)
    for word in ([4], [9, 6], [zoo.EOS]):
        stream.read_word(word)
    assert seen[-1] == [[4], [9, 6], [zoo.EOS]]
    assert stream.ended()[-1].words == [[4], [9, 6]]


def test_a_policy_that_never_writes_an_end_is_refused() -> None:
    model = zoo.model(zoo.options("soft"), 0, boundaries=True)
    with pytest.raises(UserError, match=r"HoldN\(n=2\) never writes the last words of a draft"):
        cut_of("pointer", model, HoldN(n=2))
    assert cut_of("pointer", model, HoldN(n=0)) is CUTS["pointer"]


@pytest.mark.parametrize("policy", [None, HoldN(n=1)])
def test_a_sentence_that_never_ends_is_ended(policy: Policy | None) -> None:
    model = zoo.model(zoo.options("soft"), 0, boundaries=True)
    stream = DocumentStream(model, CUTS["pointer"], policy)
    for number in range(250):
        stream.read_word([4 + number % 9])
        assert len(stream.words) < LONGEST
    ended = stream.ended()
    assert len(ended) > 1
    assert all(len(segment.words) >= LONGEST // 2 for segment in ended)
