"""An encoded source, which the encoder hands to the decoder."""

from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor


class Source(NamedTuple):
    """The encoded tokens of B source sentences that have been read, or the next few tokens."""

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
    """One more encoded token of each sentence; EOS finishes the sentence."""
    finished = token == eos
    mask = torch.ones_like(finished)[:, None]
    return Source(token[:, None], states, mask, finished, averages, prefixes)
