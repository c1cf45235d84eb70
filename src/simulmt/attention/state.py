"""States between two steps: nested named tuples of tensors, with a row for each sentence."""

from collections.abc import Callable
from typing import TypeAlias, TypeVar, cast

import torch
from jaxtyping import Bool
from torch import Tensor

State: TypeAlias = Tensor | tuple[object, ...] | None
"""What a model, a clock or a schedule keeps between two steps. The first dimension of each tensor
is the batch. A dimension of the source or the target grows at its end."""
T = TypeVar("T")


def select(state: T, rows: Tensor) -> T:
    """The state of some rows of the batch, given by their numbers or by a mask."""
    rows = rows.nonzero()[:, 0] if rows.dtype == torch.bool else rows  # once: a GPU waits for it
    return cast("T", each(lambda x: x[rows], state))


def either(rows: Bool[Tensor, "B"], one: T, other: T) -> T:
    """The rows of `one` where True, those of `other` elsewhere; both are nested named tuples."""

    def chosen(x: Tensor, y: Tensor) -> Tensor:
        return torch.where(rows.view(-1, *[1] * (x.dim() - 1)), x, y)

    return cast("T", each(chosen, one, other))


def each(function: Callable[..., object], state: object, *others: object) -> State:
    """The results of a function for each tensor of a state, nested as the state.

    The function also gets what the other states have at the place of the tensor. If one of them has
    None for a part, it gets None for each tensor of that part.
    """
    if state is None:
        return None
    if isinstance(state, Tensor):
        return cast("State", function(state, *others))
    assert isinstance(state, tuple), "states are nested tuples"
    nothing = (None,) * len(state)
    columns = zip(state, *(nothing if other is None else other for other in others), strict=True)
    parts = [each(function, *column) for column in columns]
    return state._make(parts) if hasattr(state, "_make") else tuple(parts)
