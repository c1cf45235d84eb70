"""The interface of scores: how well a query matches a source state.

A score turns source states into keys once per sentence (`keys`) and compares queries with them
(`forward`). Energies are `(B, H, T, S)`, one matrix per head.
"""

from abc import ABC, abstractmethod
from typing import ClassVar

from jaxtyping import Bool, Float
from torch import Tensor, nn

from simulmt.attention.shapes import Energies, Keys, Queries
from simulmt.attention.softmax import masked_softmax


class ScoreFunction(nn.Module, ABC):
    """Compares decoder states with source states; built from (width, heads)."""

    linear: ClassVar[bool] = True
    """True if energies are linear in the states: a vector that is added to all states then adds
    the same to all energies of a query."""

    @abstractmethod
    def keys(self, states: Float[Tensor, "B S D"]) -> Keys:
        """Keys of the source states, computed once for each state."""

    @abstractmethod
    def forward(self, query: Queries, keys: Keys) -> Energies:
        """Energies of every query against every key."""

    def attend(
        self,
        query: Queries,
        keys: Keys,
        values: Float[Tensor, "B H S v"],
        visible: Bool[Tensor, "B #H T S"],
        shift: Float[Tensor, "B #H T S"] | None = None,
    ) -> Float[Tensor, "B H T v"]:
        """Average of the values, weighted by a softmax over the visible positions.

        Args:
            query: decoder states.
            keys: those of the source states.
            values: what is averaged.
            visible: the positions that each query sees.
            shift: what energies are raised by.
        """
        energy = self(query, keys)
        energy = energy if shift is None else energy + shift
        return masked_softmax(energy, visible) @ values


class Uniform(ScoreFunction):
    """An energy of zero for every position, for a span that lets a head see one position only."""

    def __init__(self, heads: int) -> None:
        super().__init__()
        self.heads = heads

    def keys(self, states: Float[Tensor, "B S D"]) -> Float[Tensor, "B H S 0"]:
        """Keys of width 0: there is nothing to compare."""
        return no_keys(states, self.heads)

    def forward(self, query: Queries, keys: Float[Tensor, "B H S 0"]) -> Energies:
        """Zero everywhere."""
        B, H, S, _ = keys.shape
        return query.new_zeros(B, H, query.shape[1], S)


def split_heads(x: Float[Tensor, "B N D"], heads: int) -> Float[Tensor, "B H N d"]:
    """Cut the last dimension into heads."""
    B, N, D = x.shape
    return x.view(B, N, heads, D // heads).transpose(1, 2)  # (B, N, D) -> (B, H, N, D/H)


def join_heads(x: Float[Tensor, "B H N d"]) -> Float[Tensor, "B N D"]:
    """Undo `split_heads`."""
    B, H, N, d = x.shape
    return x.transpose(1, 2).contiguous().view(B, N, H * d)  # (B, H, N, d) -> (B, N, H*d)


def products(query: Queries, keys: Keys) -> Energies:
    """Dot products of every query with every key, head by head."""
    queries = split_heads(query, keys.shape[1]).contiguous()  # else matmul lays it out, slowly
    return queries @ keys.transpose(-1, -2)


def no_keys(states: Float[Tensor, "B S D"], heads: int) -> Float[Tensor, "B H S 0"]:
    """Keys of width 0, for a score that does not depend on the states."""
    return states.new_empty(states.shape[0], heads, states.shape[1], 0)
