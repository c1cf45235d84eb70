"""Where a sentence of a stream ends in the source, by the definition of each cut."""

from __future__ import annotations

from itertools import chain

import pytest
import torch

import zoo
from simulmt.decoding.cuts import TOLERANCE, explained, pointed, read_until
from simulmt.decoding.history import Before, past_of
from simulmt.decoding.hypothesis import Hypothesis

WORDS = [[4], [5, 6], [7], [8, 9], [5]]


def flat(words: list[list[int]]) -> torch.Tensor:
    return torch.tensor([[*chain.from_iterable(words)]])


@pytest.mark.parametrize("history", [0, 12])
@torch.inference_mode()
def test_likelihood_and_pointer_are_their_definitions(history: int) -> None:
    """Each prefix is encoded for itself, with what was said before it."""
    draw = torch.Generator().manual_seed(0)
    model = zoo.model(zoo.options("wait_k"), 0, boundaries=True, history=history)
    lengths, found = [flat(WORDS[:n]).shape[1] for n in range(6)], set()
    for _ in range(20):
        *before, one, two = torch.randint(4, zoo.VOCABULARY, (6,), generator=draw).tolist()
        past = past_of(model, [Before(before[:2], before[2:])]) if history else None
        written, target = Hypothesis([one, two], [2, 4], []), torch.tensor([[zoo.BOS, one, two]])
        likely = []
        for n in range(1, 6):
            source = flat(WORDS[:n])
            encoded = model.encode(source, torch.ones_like(source).bool(), past)
            decoded = model.decode(encoded, target)
            log_p = decoded.logits[0].log_softmax(-1)
            likely.append(sum(log_p[i, token] for i, token in enumerate((one, two, zoo.EOS))))
        first = next(n for n, x in enumerate(likely, 1) if x >= max(likely) - TOLERANCE)
        assert explained(model, WORDS, written, past) == first
        everything = torch.ones_like(flat(WORDS)).bool()
        place = int(model.boundary(decoded.states[:, -1], encoded.states, everything).argmax())
        cut = pointed(model, WORDS, written, past)
        assert lengths[cut - 1] <= place < lengths[cut]
        found.add(first)
    assert len(found) > 1


@pytest.mark.parametrize(("heads", "word"), [([2, 3], 2), ([1, 4], 3), ([0, 2], 5), ([0, 0], 5)])
def test_reading_ends_where_the_slowest_head_was(heads: list[int], word: int) -> None:
    """Subwords are counted from 1; 0 is a head that has run off the end."""
    model = zoo.model(zoo.options("wait_k"))
    assert read_until(model, WORDS, Hypothesis([9, 9], [1, 4], [[1, 1], heads]), None) == word
