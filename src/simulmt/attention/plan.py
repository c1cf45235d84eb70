"""Plans and stands: where heads stand at each target step, or the odds that they stop.

In training a plan covers T target steps. At inference a stand covers one step, with hard positions.
Positions count from 1; a head at 0 has run off the end of the source without stopping.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple, TypeAlias

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from simulmt.attention.shapes import Energies, Weights
from simulmt.attention.state import State
from simulmt.ops import expected_alignment

Losses = Mapping[str, Float[Tensor, "B"]]
"""Losses by name, one number for each sentence; padding adds nothing. The objective weighs them."""
NO_LOSSES: Losses = {}


class Stops(NamedTuple):
    """Heads that stand at known positions. Clocks plan for all heads together: H is 1."""

    position: Int[Tensor, "B #H T"]


class Odds(NamedTuple):
    """Heads that stop with known odds (Raffel et al. 2017; MILk eq. 10; MMA eq. 4)."""

    logit: Energies
    """Log odds that a head stops at j once it has arrived there; `expected` overwrites them."""
    initial: Float[Tensor, "B H S"]
    """Where the heads stood before the first step: `alpha_0`."""

    def expected(self) -> Weights:
        """The expected alignment alpha."""
        alpha: Tensor = expected_alignment(self.logit.sigmoid_(), self.initial)
        return alpha


class Expected(NamedTuple):
    """Heads whose expected alignment the schedule has computed itself."""

    alpha: Weights

    def expected(self) -> Weights:
        """The expected alignment alpha."""
        return self.alpha


Alignment = Stops | Odds | Expected


class Plan(NamedTuple):
    """T target steps of training, planned by a clock or a schedule."""

    alignment: Alignment
    weight: Float[Tensor, "B #H T S"] | None = None
    """Factor of the attention, which is then renormalised; None for 1."""
    losses: Losses = NO_LOSSES
    state: State = None
    """State that a schedule with known stops carries to the next steps."""

    def steps(self, first: int, last: int) -> "Plan":
        """The part of a plan with known stops for steps `first` to `last - 1`, from 0."""
        assert isinstance(self.alignment, Stops), (
            "a schedule plans odds for exactly the steps that it is called for"
        )
        position = self.alignment.position[..., first:last]
        weight = None if self.weight is None else self.weight[..., first:last, :]
        return Plan(Stops(position), weight)


class Stand(NamedTuple):
    """Where heads stand at one target step of inference."""

    position: Int[Tensor, "B #H"]
    """The last source position that each head has read."""
    state: State
    """State that the clock or the schedule carries to the next target step."""
    wants_to_read: Bool[Tensor, "B"]
    """True if another source token must be read before this step can be taken."""
    weight: Float[Tensor, "B #H S"] | None = None
    """Factor of the attention, which is then renormalised; None for 1."""


MayMove: TypeAlias = Bool[Tensor, "B"] | None
"""For mechanisms that write whole words, True where the heads may read on at a step. None for the
rule of training: a clock moves on if the last token begins a word, a schedule always."""


def carried(decision: Stand | MayMove) -> State:
    """The state that a clock carries to the next target step; None where a schedule decides."""
    return decision.state if isinstance(decision, Stand) else None


def together(stands: Sequence[Stand]) -> Plan:
    """The stands of successive target steps as a plan."""
    weights = [stand.weight for stand in stands if stand.weight is not None]
    position = torch.stack([stand.position for stand in stands], 2)
    return Plan(Stops(position), torch.stack(weights, 2) if weights else None)


def logarithm(weight: Float[Tensor, "B #H T S"]) -> Float[Tensor, "B #H T S"]:
    """What to add to energies: `softmax(e + log w)` is `w softmax(e)`, renormalised.

    A weight of 0 counts as the smallest number above 0.
    """
    return weight.clamp(min=torch.finfo(weight.dtype).tiny).log()


def reweighted(beta: Weights, weight: Float[Tensor, "B #H T S"] | None) -> Weights:
    """Attention times a weight; each row is scaled back to its former sum."""
    if weight is None:
        return beta
    weighted = beta * weight
    total = weighted.sum(-1, keepdim=True)
    scale = beta.sum(-1, keepdim=True) / total.masked_fill(total == 0, 1)
    return torch.where(total == 0, beta, weighted * scale)
