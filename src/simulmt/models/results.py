"""What a model returns for a whole target and for one step, put together from its layers."""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from simulmt.attention import Attended, Losses, Plan, Stepped
from simulmt.attention.state import State
from simulmt.models.projection import Projection


class Translation(NamedTuple):
    """The result of teacher forcing; if tokens have several states, with a dimension K for them."""

    states: Float[Tensor, "B T *K E"]
    """The decoder's last states."""
    output: Projection
    """Turns states into logits, so that a caller need not hold the logits of all tokens."""
    alphas: tuple[Float[Tensor, "B H T S"], ...]
    """Expected alignment of the heads of each layer that attends to the source, moved on by the
    positions that the span looks ahead; empty where stops are known."""
    losses: Losses
    """Losses of the clock, or the mean over the layers of the schedules' losses; the objective
    weighs them."""
    confidence: Float[Tensor, "B T *K"] | None = None
    """The logit of the model's confidence in each token; None for a model without one."""
    reads: Int[Tensor, "B T K"] | None = None
    """The source tokens that each of the states of a token has read; None for one state."""

    @property
    def logits(self) -> Float[Tensor, "B T *K V"]:
        """The logits of every target token."""
        return self.output(self.states)


class DecoderStep(NamedTuple):
    """The result of one target step, in all layers that attend to the source."""

    logits: Float[Tensor, "B V"]
    state: State
    positions: Int[Tensor, "B LH"]
    """Where each head of each layer stopped, from 1; 0 once it has run off the end."""
    read: Int[Tensor, "B"]
    """Delay g_i: the number of source tokens read before this target token is written."""
    wants_to_read: Bool[Tensor, "B"]
    """Where True, the other fields are void: read another source token and take the step again."""
    weights: tuple[Float[Tensor, "B H S"], ...]
    """Attention to the source, for each layer that attends to the source."""
    confidence: Float[Tensor, "B"] | None = None
    """The logit of the confidence in the next token; of an overruled model the least `readiness` of
    its layers; None for a model without one."""


def all_losses(plan: Plan | None, attended: Sequence[Attended], layers: int = 1) -> Losses:
    """The losses of a clock's plan, or the mean over the layers of the schedules' losses.

    Args:
        plan: the clock's, if a clock decides.
        attended: a call for each layer, or for each step of a recurrent decoder, which add up.
        layers: the number of layers that were called.
    """
    if plan is not None:
        return plan.losses
    total: dict[str, Tensor] = {}
    for part in attended:
        for name, value in part.losses.items():
            total[name] = total.get(name, 0) + value / layers
    return total


def join_layers(
    logits: Float[Tensor, "B V"],
    state: State,
    layers: Sequence[Stepped],
    confidence: Float[Tensor, "B"] | None = None,
) -> DecoderStep:
    """The result of one target step.

    Args:
        logits: the logits of the next token.
        state: the decoder's next state.
        layers: the results of the layers that attend to the source.
        confidence: the logit of the confidence in the next token.
    """
    ready = [layer.readiness for layer in layers if layer.readiness is not None]
    return DecoderStep(
        logits=logits,
        state=state,
        positions=torch.cat([layer.position for layer in layers], 1),  # (B, L*H)
        read=torch.stack([layer.read for layer in layers]).amax(0),
        wants_to_read=torch.stack([layer.wants_to_read for layer in layers]).any(0),
        weights=tuple(layer.weights for layer in layers),
        confidence=torch.stack(ready).amin(0) if ready else confidence,
    )
