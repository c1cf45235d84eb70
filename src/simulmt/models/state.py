"""What a decoder carries from one target step to the next, as nested tuples of tensors."""

from __future__ import annotations

from typing import Any, NamedTuple, TypeVar, cast

from jaxtyping import Bool, Float, Int
from torch import Tensor

from simulmt.attention import Memory

T = TypeVar("T")


class LayerState(NamedTuple):
    """One Transformer decoder layer between two target steps."""

    self_keys: Float[Tensor, "B H t d"]
    self_values: Float[Tensor, "B H t d"]
    memory: Memory
    attention: Int[Tensor, "B h"]


class DecoderState(NamedTuple):
    """A Transformer decoder between two target steps."""

    layers: tuple[LayerState, ...]
    step: Int[Tensor, "B"]
    """Target tokens taken in so far."""


class DecoderStep(NamedTuple):
    """What one target step gives."""

    logits: Float[Tensor, "B V"]
    state: DecoderState
    positions: Int[Tensor, "B LH"]
    """Where each head of each layer stopped, from 1; 0 once it has run off the end."""
    read: Int[Tensor, "B"]
    """Delay g_i: source tokens read before this target token is written."""
    wants_to_read: Bool[Tensor, "B"]
    """Where True, the rest of the row is void: read another token and take the step again."""


def select(state: T, rows: Tensor) -> T:
    """The same state for the chosen rows of the batch, in that order."""
    return cast("T", _select(state, rows))


def _select(state: Any, rows: Tensor) -> Any:
    if isinstance(state, Tensor):
        return state[rows]
    parts = [_select(part, rows) for part in state]
    return state._make(parts) if hasattr(state, "_make") else tuple(parts)
