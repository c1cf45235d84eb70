"""The spans of monotonic attention: one state, a chunk of states, everything read."""

from dataclasses import dataclass
from typing import ClassVar

from jaxtyping import Int
from torch import Tensor

from simulmt.attention.memory import places
from simulmt.attention.shapes import Energies, Queries, Weights
from simulmt.attention.spans.span import Look, PlainSpan, SpanTraits
from simulmt.ops import expected_attention
from simulmt.options import Count, limited


@dataclass(frozen=True)
class Stopped(PlainSpan):
    """The one state that the head stopped at (Raffel et al. 2017; MMA-H, Ma et al. 2020)."""

    takes_score: ClassVar[bool] = False

    @property
    def traits(self) -> SpanTraits:
        """One position, which needs no score."""
        return SpanTraits(scored=False)

    def look(self, query: Queries, position: Int[Tensor, "B #H T"], length: int) -> Look:
        """`j = t`."""
        return Look(places(position, length) == position[..., None])

    def closed_form(self, alpha: Weights, energy: Energies) -> Weights:
        """`beta = alpha`."""
        return alpha


@limited
@dataclass(frozen=True)
class Chunk(PlainSpan):
    """The last c states up to the one stopped at (MoChA, Chiu & Raffel 2018; MMA-C).

    Args:
        chunk: c.
    """

    chunk: Count

    @property
    def traits(self) -> SpanTraits:
        """A chunk of one state needs no score."""
        return SpanTraits(scored=self.chunk > 1)

    def look(self, query: Queries, position: Int[Tensor, "B #H T"], length: int) -> Look:
        """`t - c < j <= t`."""
        j, t = places(position, length), position[..., None]
        return Look((j <= t) & (j > t - self.chunk))

    def closed_form(self, alpha: Weights, energy: Energies) -> Weights:
        """Expected softmax over the chunk that ends where the head stops."""
        return expected_attention(alpha, energy, chunk=self.chunk)


@dataclass(frozen=True)
class Lookback(PlainSpan):
    """Everything read (MILk, Arivazhagan et al. 2019, eq. 14; MMA-IL; wait-k; soft attention)."""

    @property
    def traits(self) -> SpanTraits:
        """A head sees all positions that it has read."""
        return SpanTraits(unlimited=True)

    def look(self, query: Queries, position: Int[Tensor, "B #H T"], length: int) -> Look:
        """`j <= t`."""
        return Look(places(position, length) <= position[..., None])

    def closed_form(self, alpha: Weights, energy: Energies) -> Weights:
        """Expected softmax over all positions up to where the head stops."""
        return expected_attention(alpha, energy)
