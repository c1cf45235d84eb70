"""Spans: what a head looks back on once it stands somewhere.

`expected` is the expectation that training uses, equations 3 of each paper; `visible` is the set
of positions that a head standing at a known position attends to, which is all that inference and
fixed schedules need. Positions count from 1; a head at 0 has run off the end and sees nothing.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from simulmt.ops import expected_attention


class Span(ABC):
    """What every span offers to the attention that holds it."""

    scored: bool
    """Whether the span weighs several positions against each other and so needs a score."""

    @abstractmethod
    def expected(
        self, alpha: Float[Tensor, "B H T S"], energy: Float[Tensor, "B H T S"]
    ) -> Float[Tensor, "B H T S"]:
        """Expected attention `beta` for heads that stand at j with probability `alpha_ij`."""

    @abstractmethod
    def visible(self, position: Int[Tensor, "*N"], length: int) -> Bool[Tensor, "*N S"]:
        """The source positions, of `length`, seen by heads standing at `position`."""


class Stopped(Span):
    """The one state that the head stopped at (Raffel et al. 2017; MMA-H, Ma et al. 2020)."""

    scored = False

    def expected(
        self, alpha: Float[Tensor, "B H T S"], energy: Float[Tensor, "B H T S"]
    ) -> Float[Tensor, "B H T S"]:
        """`beta = alpha`."""
        return alpha

    def visible(self, position: Int[Tensor, "*N"], length: int) -> Bool[Tensor, "*N S"]:
        """`j = t`."""
        return _places(position, length) == position[..., None]


class Chunk(Span):
    """The last c states up to the one stopped at (MoChA, Chiu & Raffel 2018; MMA-C)."""

    def __init__(self, *, chunk: int) -> None:
        if chunk < 1:
            raise ValueError(f"chunk is {chunk}; it must be at least 1 source position")
        self.chunk = chunk
        self.scored = chunk > 1  # a lone state has nothing to be weighed against

    def expected(
        self, alpha: Float[Tensor, "B H T S"], energy: Float[Tensor, "B H T S"]
    ) -> Float[Tensor, "B H T S"]:
        """Expected softmax over the chunk that ends where the head stops."""
        return expected_attention(alpha, energy, chunk=self.chunk)

    def visible(self, position: Int[Tensor, "*N"], length: int) -> Bool[Tensor, "*N S"]:
        """`t - c < j <= t`."""
        places, end = _places(position, length), position[..., None]
        return (places <= end) & (places > end - self.chunk)


class Lookback(Span):
    """Everything read (MILk, Arivazhagan et al. 2019, eq. 11; MMA-IL; wait-k; soft attention)."""

    scored = True

    def expected(
        self, alpha: Float[Tensor, "B H T S"], energy: Float[Tensor, "B H T S"]
    ) -> Float[Tensor, "B H T S"]:
        """Expected softmax over all that was read when the head stopped."""
        return expected_attention(alpha, energy)

    def visible(self, position: Int[Tensor, "*N"], length: int) -> Bool[Tensor, "*N S"]:
        """`j <= t`."""
        return _places(position, length) <= position[..., None]


def _places(position: Int[Tensor, "*N"], length: int) -> Int[Tensor, "S"]:
    """1, 2, ..., S on the device of `position`."""
    return torch.arange(1, length + 1, device=position.device)


SPANS: dict[str, type[Span]] = {"stopped": Stopped, "chunk": Chunk, "lookback": Lookback}
"""What `mechanism.span` can name."""
