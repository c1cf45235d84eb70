"""The history of a sentence: the sentences before it, which a model sees and does not write."""

from collections.abc import Sequence
from typing import NamedTuple

import torch

from simulmt.attention import Past
from simulmt.models.model import Model


class Before(NamedTuple):
    """A sentence before, as subwords without EOS; its translation may be unknown."""

    source: Sequence[int]
    target: Sequence[int] | None = None


def held(model: Model, sentences: Sequence[Before]) -> Sequence[Before]:
    """The newest of some sentences, as many as the model's history holds on either side."""
    source = target = 0
    for number, one in enumerate(reversed(sentences)):
        source += len(one.source)
        target += 0 if one.target is None else len(one.target) + 1
        if max(source, target) > model.history:
            return sentences[len(sentences) - number :]
    return sentences


def past_of(model: Model, sentences: Sequence[Before]) -> Past | None:
    """What a model sees of the sentences before, which its history holds; None for none."""
    if not sentences:
        return None
    known = [one.target for one in sentences if one.target is not None]
    source = [token for one in sentences for token in one.source]
    target = [token for own in known for token in [*own, model.vocabulary.eos]]
    sides = (torch.tensor([x], device=model.begins.device).long() for x in (source, target))
    return Past(*(part for side in sides for part in (side, torch.ones_like(side).bool())))
