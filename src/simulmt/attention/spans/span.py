"""What every span offers: where a head looks once it stands somewhere.

`look` is what a head that stands at a known position sees, which is all that inference and fixed
schedules need; `expected` is its expectation over where the head may stand, which training uses.
Positions count from 1; a head at 0 has run off the end and sees nothing.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from simulmt.attention.softmax import masked_softmax
from simulmt.ops import expected_alignment


class Look(NamedTuple):
    """What heads see from where they stand."""

    visible: Bool[Tensor, "B H T S"]
    factor: Float[Tensor, "B H T S"] | None = None
    """What the softmax over the visible positions is multiplied by; None for 1."""


class Span(nn.Module, ABC):
    """What every span offers to the attention that holds it."""

    scored: bool = True
    """Whether it weighs several positions against each other and so needs a score."""
    ahead: int = 0
    """Source positions that a head looks beyond where it stands, and so has to read."""
    dampens: bool = False
    """Whether its weights are multiplied by a factor and so sum to less than 1."""

    def __init__(self) -> None:  # the signature is the schema of its options
        super().__init__()

    @abstractmethod
    def look(
        self, query: Float[Tensor, "B T D"], position: Int[Tensor, "B H T"], length: int
    ) -> Look:
        """The source positions, of `length`, seen by heads standing at `position`."""

    @abstractmethod
    def expected(
        self,
        query: Float[Tensor, "B T D"],
        alpha: Float[Tensor, "B H T S"],
        energy: Float[Tensor, "B H T S"],
        mask: Bool[Tensor, "B S"],
    ) -> Float[Tensor, "B H T S"]:
        """Expected attention `beta` for heads that stand at j with probability `alpha_ij`."""

    def aligned(
        self,
        query: Float[Tensor, "B T D"],
        logit: Float[Tensor, "B H T S"],
        initial: Float[Tensor, "B H S"],
        energy: Float[Tensor, "B H T S"],
        mask: Bool[Tensor, "B S"],
    ) -> tuple[Float[Tensor, "B H T S"], Float[Tensor, "B H T S"]]:
        """`alpha` and `beta` of heads that stop at j with probability `sigmoid(logit_ij)`.

        The logits may be used up.
        """
        alpha = expected_alignment(logit.sigmoid_(), initial)
        return alpha, self.expected(query, alpha, energy, mask)


def weights(
    energy: Float[Tensor, "B H T S"], look: Look, mask: Bool[Tensor, "B S"]
) -> Float[Tensor, "B H T S"]:
    """Attention of heads that see `look`."""
    found = masked_softmax(energy, look.visible & mask[:, None, None])
    return found if look.factor is None else found * look.factor


def expectation(
    span: Span,
    query: Float[Tensor, "B T D"],
    alpha: Float[Tensor, "B H T S"],
    energy: Float[Tensor, "B H T S"],
    mask: Bool[Tensor, "B S"],
) -> Float[Tensor, "B H T S"]:
    """`beta_ij = sum_k alpha_ik weights_ij(k)`, the definition of `expected`, in S softmaxes."""
    beta = torch.zeros_like(energy)
    for k in range(alpha.shape[-1]):
        position = torch.full(alpha.shape[:-1], k + 1, device=alpha.device)
        look = span.look(query, position, alpha.shape[-1])
        beta = beta + alpha[..., k, None] * weights(energy, look, mask)
    return beta


def places(position: Tensor, length: int) -> Int[Tensor, "S"]:
    """1, 2, ..., S on the device of `position`."""
    return torch.arange(1, length + 1, device=position.device)
