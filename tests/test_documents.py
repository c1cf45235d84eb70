"""Streams without sentence ends: the model ends segments, and the source is cut behind them."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import pytest
import torch

import zoo
from simulmt.decoding.cuts import CUTS
from simulmt.decoding.document import DocumentStream
from simulmt.models.model import Model

LENGTHS = (0, 1, 9, 14)
"""Words of the documents."""


def documents() -> list[list[list[int]]]:
    rng = torch.Generator().manual_seed(1)
    ids = [torch.randint(4, zoo.VOCABULARY, (n,), generator=rng).tolist() for n in LENGTHS]
    return [[[token] for token in document] for document in ids]


def translated(model: Model, cut: str, together: bool) -> list[DocumentStream]:
    """The documents, each read to its end, alone or with the others."""
    words = [[*document, [zoo.EOS]] for document in documents()]
    streams = [DocumentStream(model, CUTS[cut], limit=zoo.short_limit) for _ in words]
    if together:
        for turn in range(max(map(len, words))):
            DocumentStream.read_words(streams, [w[turn] if turn < len(w) else [] for w in words])
    else:
        for stream, own in zip(streams, words, strict=True):
            for word in own:
                stream.read_word(word)
    return streams


def check(streams: Sequence[DocumentStream]) -> None:
    """No word is lost, and no delay falls."""
    for stream, document in zip(streams, documents(), strict=True):
        assert [word for segment in stream.segments for word in segment.words] == document
        assert not stream.words
        delays = [delay for segment in stream.segments for delay in segment.written.delays]
        assert all(a <= b for a, b in pairwise(delays))
        assert all(1 <= delay <= len(document) for delay in delays)
        assert [s.read for s in stream.segments] == sorted(s.read for s in stream.segments)


@pytest.mark.parametrize("cut", CUTS)
@pytest.mark.parametrize(("mechanism", "kind"), zoo.pairs(["wait_k", "mma_il", "milk", "itst"]))
def test_streams_together_are_streams_alone(mechanism: str, kind: str, cut: str) -> None:
    pointing = {} if kind == zoo.REENCODING else {"boundaries": True}
    model = zoo.model(zoo.options(mechanism), 0, kind, **pointing)
    if cut == "pointer" and model.boundary is None:
        pytest.skip("no pointer")
    alone, together = (translated(model, cut, joined) for joined in (False, True))
    check(alone)
    assert [s.segments for s in alone] == [s.segments for s in together]
    assert cut == "reading" or any(len(stream.segments) > 1 for stream in alone)
