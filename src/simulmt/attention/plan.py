"""What a policy tells the attention: where heads stand at each target step, or with what odds.

In training a plan covers T target steps at once. At inference a stand covers one step, and is hard.
Positions count from 1; a head at 0 has run off the end of the source without stopping.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from simulmt.ops import expected_alignment

Losses = Mapping[str, Float[Tensor, "B"]]
"""Losses by name, one number a sentence, padding left out. The objective weighs them by name."""
NO_LOSSES: Losses = {}


class Stops(NamedTuple):
    """Heads that stand at known positions. Clocks plan for all heads alike: H is 1."""

    position: Int[Tensor, "B #H T"]


class Odds(NamedTuple):
    """Heads that stop with known odds (Raffel et al. 2017; MILk eq. 10; MMA eq. 4)."""

    logit: Float[Tensor, "B H T S"]
    """Log odds of stopping at j, having arrived there; may be overwritten by whoever uses it."""
    initial: Float[Tensor, "B H S"]
    """Where the heads stood before the first step: `alpha_0`."""

    def expected(self) -> Float[Tensor, "B H T S"]:
        """The expected alignment alpha."""
        alpha: Tensor = expected_alignment(self.logit.sigmoid_(), self.initial)
        return alpha


class Expected(NamedTuple):
    """Heads whose expected alignment a schedule has computed in a way of its own."""

    alpha: Float[Tensor, "B H T S"]

    def expected(self) -> Float[Tensor, "B H T S"]:
        """The expected alignment alpha."""
        return self.alpha


Alignment = Stops | Odds | Expected


class Plan(NamedTuple):
    """T target steps of training, planned by a clock or a schedule."""

    alignment: Alignment
    weight: Float[Tensor, "B #H T S"] | None = None
    """What attention is multiplied by before it is renormalised; None for 1."""
    losses: Losses = NO_LOSSES
    state: Any = None
    """What a schedule with known stops carries to the steps that follow these."""

    def steps(self, first: int, last: int) -> Plan:
        """The part for steps `first` to `last - 1`, from 0, of a plan with known stops."""
        assert isinstance(self.alignment, Stops), "odds are made for the steps that are asked for"
        position = self.alignment.position[..., first:last]
        weight = None if self.weight is None else self.weight[..., first:last, :]
        return Plan(Stops(position), weight)


class Stand(NamedTuple):
    """Where heads stand at one target step of inference."""

    position: Int[Tensor, "B #H"]
    """The last source position that each head has read."""
    state: Any
    """What the clock or the schedule carries to the next target step."""
    wants_to_read: Bool[Tensor, "B"]
    """Whether this step cannot be taken before another source token is read."""
    weight: Float[Tensor, "B #H S"] | None = None
    """What attention is multiplied by before it is renormalised; None for 1."""


def reweighted(
    beta: Float[Tensor, "B H T S"], weight: Float[Tensor, "B #H T S"] | None
) -> Float[Tensor, "B H T S"]:
    """Attention times a weight, each row scaled back to the sum that it had."""
    if weight is None:
        return beta
    weighted = beta * weight
    total = weighted.sum(-1, keepdim=True)
    scale = beta.sum(-1, keepdim=True) / total.masked_fill(total == 0, 1)
    return torch.where(total == 0, beta, weighted * scale)
