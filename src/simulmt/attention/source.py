"""An encoded source: what an encoder gives to a decoder."""

from __future__ import annotations

from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor


class Source(NamedTuple):
    """What has been read of B source sentences, encoded; or the next few tokens of each."""

    tokens: Int[Tensor, "B S"]
    states: Float[Tensor, "B S D"]
    """Encoder states. Those of a causal encoder depend on their prefix alone."""
    mask: Bool[Tensor, "B S"]
    """True for real tokens."""
    finished: Bool[Tensor, "B"]
    """Whether the last token, EOS, has been read."""
    averages: Float[Tensor, "B S D"] | None = None
    """Projected average of the embeddings of each prefix (`simulmt.models.average_embedding`)."""
    prefixes: Float[Tensor, "B P N D"] | None = None
    """States of the last P prefixes, each encoded on its own (`simulmt.models.reencoding`). N is
    the length of the longest prefix."""


def next_token(
    token: Int[Tensor, "B"],
    eos: int,
    states: Float[Tensor, "B 1 D"],
    averages: Float[Tensor, "B 1 D"] | None = None,
    prefixes: Float[Tensor, "B 1 N D"] | None = None,
) -> Source:
    """One more token of each sentence, encoded; the sentence has ended if the token is EOS."""
    finished = token == eos
    mask = torch.ones_like(finished)[:, None]
    return Source(token[:, None], states, mask, finished, averages, prefixes)
