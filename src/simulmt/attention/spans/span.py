"""Spans: which source positions a head sees from where the head stands.

`look` gives the view of a head that stands at a known position. Training uses the expected
attention over all positions at which the head may stand: `closed_form`, or else `expected`.
Positions count from 1; a head at 0 has run off the end and sees nothing.
"""

from abc import ABC, abstractmethod
from typing import ClassVar, NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from simulmt.attention.shapes import Energies, Queries, Weights
from simulmt.attention.softmax import masked_softmax


class SpanTraits(NamedTuple):
    """The properties of a span that an attention depends on."""

    scored: bool = True
    """True if the span weighs several positions against each other, and so needs a score."""
    unlimited: bool = False
    """True if a head sees all positions that it has read; one kernel then gives alpha and beta."""
    ahead: int = 0
    """Source positions that a head sees, and so has to read, beyond where the head stands."""
    dampens: bool = False
    """True if a factor makes the weights sum to less than 1."""


class Look(NamedTuple):
    """What heads see from where they stand."""

    visible: Bool[Tensor, "B #H T S"]
    factor: Float[Tensor, "B #H T S"] | None = None
    """Factor of the softmax over the visible positions; None for 1."""


class Span(ABC):
    """Where the heads of one layer look."""

    @property
    def traits(self) -> SpanTraits:
        """The properties of the span; by default a head sees several of the positions read."""
        return SpanTraits()

    @abstractmethod
    def look(self, query: Queries, position: Int[Tensor, "B #H T"], length: int) -> Look:
        """The source positions, of `length`, seen by heads that stand at `position`."""

    def expected(
        self, query: Queries, alpha: Weights, energy: Energies, mask: Bool[Tensor, "B S"]
    ) -> Weights:
        """Expected attention `beta` of heads that stand at j with probability `alpha_ij`.

        `beta_ij = sum_k alpha_ik weights_ij(k)`, computed by this definition in S softmaxes.
        """
        beta = torch.zeros_like(energy)
        for k in range(alpha.shape[-1]):
            position = torch.full(alpha.shape[:-1], k + 1, device=alpha.device)
            look = self.look(query, position, alpha.shape[-1])
            beta = beta + alpha[..., k, None] * weights(energy, look, mask)
        return beta

    def closed_form(self, alpha: Weights, energy: Energies) -> Weights | None:
        """The same as `expected`, faster; None for a span without a closed form."""
        return None


class SpanRecipe(ABC):
    """The options of a span."""

    takes_score: ClassVar[bool] = True
    """True if `mechanism.score` is an option beside the options of the span."""

    @abstractmethod
    def build(self, dim: int, heads: int) -> Span:
        """The span of one layer, for queries of width `dim`."""


class PlainSpan(SpanRecipe, Span, ABC):
    """A span without parameters, which is its own recipe."""

    def build(self, dim: int, heads: int) -> Span:
        """The span itself."""
        return self


def weights(energy: Energies, look: Look, mask: Bool[Tensor, "B S"]) -> Weights:
    """Attention of heads with the view `look`."""
    beta = masked_softmax(energy, look.visible & mask[:, None, None])
    return beta if look.factor is None else beta * look.factor
