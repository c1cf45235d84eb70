"""The spans of monotonic attention: one state, a chunk of them, everything read."""

from __future__ import annotations

from jaxtyping import Bool, Float, Int
from torch import Tensor

from simulmt.attention.spans.span import Look, Span, places
from simulmt.ops import expected_alignment_and_attention, expected_attention


class Stopped(Span):
    """The one state that the head stopped at (Raffel et al. 2017; MMA-H, Ma et al. 2020)."""

    scored = False

    def look(
        self, query: Float[Tensor, "B T D"], position: Int[Tensor, "B H T"], length: int
    ) -> Look:
        """`j = t`."""
        return Look(places(position, length) == position[..., None])

    def expected(
        self,
        query: Float[Tensor, "B T D"],
        alpha: Float[Tensor, "B H T S"],
        energy: Float[Tensor, "B H T S"],
        mask: Bool[Tensor, "B S"],
    ) -> Float[Tensor, "B H T S"]:
        """`beta = alpha`."""
        return alpha


class Chunk(Span):
    """The last c states up to the one stopped at (MoChA, Chiu & Raffel 2018; MMA-C)."""

    def __init__(self, *, chunk: int) -> None:
        super().__init__()
        if chunk < 1:
            raise ValueError(f"chunk is {chunk}; it must be at least 1 source position")
        self.chunk = chunk
        self.scored = chunk > 1  # a lone state has nothing to be weighed against

    def look(
        self, query: Float[Tensor, "B T D"], position: Int[Tensor, "B H T"], length: int
    ) -> Look:
        """`t - c < j <= t`."""
        j, t = places(position, length), position[..., None]
        return Look((j <= t) & (j > t - self.chunk))

    def expected(
        self,
        query: Float[Tensor, "B T D"],
        alpha: Float[Tensor, "B H T S"],
        energy: Float[Tensor, "B H T S"],
        mask: Bool[Tensor, "B S"],
    ) -> Float[Tensor, "B H T S"]:
        """Expected softmax over the chunk that ends where the head stops."""
        return expected_attention(alpha, energy, chunk=self.chunk)


class Lookback(Span):
    """Everything read (MILk, Arivazhagan et al. 2019, eq. 14; MMA-IL; wait-k; soft attention)."""

    def look(
        self, query: Float[Tensor, "B T D"], position: Int[Tensor, "B H T"], length: int
    ) -> Look:
        """`j <= t`."""
        return Look(places(position, length) <= position[..., None])

    def expected(
        self,
        query: Float[Tensor, "B T D"],
        alpha: Float[Tensor, "B H T S"],
        energy: Float[Tensor, "B H T S"],
        mask: Bool[Tensor, "B S"],
    ) -> Float[Tensor, "B H T S"]:
        """Expected softmax over all that was read when the head stopped."""
        return expected_attention(alpha, energy)

    def aligned(
        self,
        query: Float[Tensor, "B T D"],
        logit: Float[Tensor, "B H T S"],
        initial: Float[Tensor, "B H S"],
        energy: Float[Tensor, "B H T S"],
        mask: Bool[Tensor, "B S"],
    ) -> tuple[Float[Tensor, "B H T S"], Float[Tensor, "B H T S"]]:
        """Both in one pass."""
        return expected_alignment_and_attention(logit, energy, initial)
