"""States of several sentences as one, so that a model takes one pass for all of them.

A state is nested tuples of tensors with a row for each sentence. Some tensors are as long as what
the sentence has read or written: source states, keys and values. Joined, they are padded on the
right with 0 or False, as sources are in a batch. A pass of the model appends to them after the
padding; `grown` moves what was appended to the end of each sentence. So a model only has to keep
padding out of sight: `Memory.mask` and clocks' stops do so for the source, and the Transformer
hides the padding of its self-attention.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import torch
from jaxtyping import Int
from torch import Tensor

from simulmt.attention.state import State, each, select


class Own(NamedTuple):
    """How long each row of a padded tensor is."""

    dim: int
    """The dimension that is padded."""
    lengths: tuple[int, ...]


@dataclass(frozen=True)
class Joined:
    """The states of B sentences, in one.

    Attributes:
        state: As a model takes it.
        own: Nested as the state, an `Own` for each tensor with padding; None for what has none.
    """

    state: State
    own: State = None

    def grown(self, after: State) -> "Joined":
        """The rows after a pass of the model, which has appended the same number to each."""
        own = each(_lengthened, self.state, self.own, after)
        return Joined(each(_closed_up, after, self.own, self.state), own)

    def select(self, rows: Sequence[int]) -> "Joined":
        """Some of the rows, in their order."""
        if len(rows) == len(self):
            return self
        places = torch.tensor(rows, device=_first(self.state).device)

        def chosen(_: Tensor, own: Own | None) -> Own | None:
            return own and own._replace(lengths=tuple(own.lengths[row] for row in rows))

        own = each(chosen, self.state, self.own)
        return Joined(select(self.state, places), own)

    def alone(self) -> list[State]:
        """The state of each sentence by itself, in separate memory."""
        if len(self) == 1 and self.own is None:
            return [self.state]
        rows = each(_rows, self.state, self.own)
        return [each(lambda _, own, n=n: own[n], self.state, rows) for n in range(len(self))]

    def __len__(self) -> int:
        return len(_first(self.state))


def structure(state: object) -> object:
    """Where a state has tensors, and where None; states of one form can be joined."""
    return tuple(map(structure, state)) if isinstance(state, tuple) else state is None


def join(states: Sequence[State]) -> Joined:
    """Join states of one form, each of one sentence.

    Args:
        states: at least one; each from a pass for one sentence, or from `Joined.alone`.
    """
    if len(states) == 1 or states[0] is None:
        return Joined(states[0])
    own = each(_own, *states)
    return Joined(each(_padded, states[0], own, *states[1:]), own)


def _first(state: object) -> Tensor:
    """Any tensor of a state."""
    if isinstance(state, tuple):
        return _first(next(part for part in state if part is not None))
    assert isinstance(state, Tensor), "states have tensors"
    return state


def _own(*rows: Tensor) -> Own | None:
    shapes = [row.shape for row in rows]
    if len({*shapes}) == 1:
        return None
    (dim,) = (dim for dim, sizes in enumerate(zip(*shapes, strict=True)) if len({*sizes}) > 1)
    return Own(dim, tuple(shape[dim] for shape in shapes))


def _padded(first: Tensor, own: Own | None, *others: Tensor) -> Tensor:
    """Rows in one tensor (B, ...)."""
    if own is None:
        return torch.cat([first, *others])
    dim, lengths = own
    padding = first.new_zeros([1 if d == dim else size for d, size in enumerate(first.shape)])
    every = torch.cat([first, *others, padding], dim)  # (1, ..., sum of lengths + 1, ...)
    places = _places(lengths, first.device)
    spread = every.index_select(dim, places.flatten())
    shape = [*first.shape[1:dim], *places.shape, *first.shape[dim + 1 :]]
    return spread.view(shape).movedim(dim - 1, 0)


def _rows(x: Tensor, own: Own | None) -> tuple[Tensor, ...]:
    """Copies (1, ...) of the rows of a tensor (B, ...), without padding."""
    if own is None:
        return _split_copy(x, [1] * len(x), 0)
    dim, lengths = own
    real = _real(lengths, x.shape[dim], x.device)
    every = x.movedim(0, dim - 1).flatten(dim - 1, dim)[None].index_select(dim, real)
    return _split_copy(every, [*lengths], dim)


@lru_cache(16)  # the tensors of a state have two or three lengths in all
def _places(lengths: tuple[int, ...], device: torch.device) -> Int[Tensor, "B N"]:
    """For padded rows, their places in the rows one after another; padding follows the last row."""
    own = torch.tensor(lengths, device=device)
    ends, place = own.cumsum(0), torch.arange(max(lengths), device=device)
    return ((ends - own)[:, None] + place).where(place < own[:, None], sum(lengths))


@lru_cache(16)
def _real(lengths: tuple[int, ...], width: int, device: torch.device) -> Int[Tensor, "N"]:
    """The places of padded rows, one after another, that are not padding."""
    own = torch.tensor(lengths, device=device)
    return (torch.arange(width, device=device) < own[:, None]).flatten().nonzero()[:, 0]


_split_copy: Callable[[Tensor, list[int], int], tuple[Tensor, ...]]
_split_copy = torch.split_with_sizes_copy  # type: ignore[assignment]  # torch declares no result


def _lengthened(before: Tensor, own: Own | None, after: Tensor) -> Own | None:
    if own is None:
        return None
    more = after.shape[own.dim] - before.shape[own.dim]
    return own._replace(lengths=tuple(length + more for length in own.lengths))


def _closed_up(after: Tensor, own: Own | None, before: Tensor | None) -> Tensor:
    """What was appended after the padding of each row, moved to the end of the row."""
    if own is None or before is None or after.shape == before.shape:
        return after
    dim, end, device = own.dim, before.shape[own.dim], after.device
    x = after.movedim(dim, 1).clone()  # (B, M, ...)
    newest = x[:, end:].clone()
    x[:, end:] = 0
    place = torch.arange(newest.shape[1], device=device)
    place = torch.tensor(own.lengths, device=device)[:, None] + place
    x[torch.arange(len(x), device=device)[:, None], place] = newest
    return x.movedim(1, dim)
