"""Scores: how well a query matches a source state.

A score turns source states into keys once per sentence (`keys`) and compares queries with them
(`forward`). Energies are `(B, H, T, S)`, one matrix per head.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.nn import functional


class Score(nn.Module, ABC):
    """What every score offers to the attention that holds it."""

    @abstractmethod
    def keys(self, states: Float[Tensor, "B S D"]) -> Float[Tensor, "B H S d"]:
        """What is computed once for each source state."""

    @abstractmethod
    def forward(
        self, query: Float[Tensor, "B T D"], keys: Float[Tensor, "B H S d"]
    ) -> Float[Tensor, "B H T S"]:
        """The energies of every query against every key."""

    @abstractmethod
    def attend(
        self,
        query: Float[Tensor, "B T D"],
        keys: Float[Tensor, "B H S d"],
        values: Float[Tensor, "B H S v"],
        visible: Bool[Tensor, "B H T S"],
    ) -> Float[Tensor, "B H T v"]:
        """The average of the values under a softmax over the visible positions."""


class ScaledDotProduct(Score):
    """`(W_q s)(W_k h)^T / sqrt(d_head)`, one projection pair per head (Vaswani et al. 2017).

    The keys have no bias. Under a softmax it would do nothing, since it shifts all energies of a
    query alike; selection energies have the scalar r of their schedule instead.
    """

    def __init__(self, dim: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.query = nn.Linear(dim, dim)
        self.key = nn.Linear(dim, dim, bias=False)
        for projection in (self.query, self.key):
            nn.init.xavier_uniform_(projection.weight, gain=1 / math.sqrt(2))
        nn.init.zeros_(self.query.bias)

    def keys(self, states: Float[Tensor, "B S D"]) -> Float[Tensor, "B H S d"]:
        """Project the states and split them into heads."""
        return split_heads(self.key(states), self.heads)

    def forward(
        self, query: Float[Tensor, "B T D"], keys: Float[Tensor, "B H S d"]
    ) -> Float[Tensor, "B H T S"]:
        """Scaled dot products of every query with every key."""
        queries = split_heads(self.query(query), self.heads)
        return queries @ keys.transpose(-1, -2) / math.sqrt(keys.shape[-1])

    def attend(
        self,
        query: Float[Tensor, "B T D"],
        keys: Float[Tensor, "B H S d"],
        values: Float[Tensor, "B H S v"],
        visible: Bool[Tensor, "B H T S"],
    ) -> Float[Tensor, "B H T v"]:
        """Attend through torch's fused kernel, which never writes the weights down."""
        queries = split_heads(self.query(query), self.heads)
        return functional.scaled_dot_product_attention(queries, keys, values, attn_mask=visible)


class Uniform(Score):
    """Every position scores alike: the score of a span that shows one position only."""

    def __init__(self, heads: int) -> None:
        super().__init__()
        self.heads = heads

    def keys(self, states: Float[Tensor, "B S D"]) -> Float[Tensor, "B H S 0"]:
        """Nothing is to be computed."""
        return states.new_empty(states.shape[0], self.heads, states.shape[1], 0)

    def forward(
        self, query: Float[Tensor, "B T D"], keys: Float[Tensor, "B H S 0"]
    ) -> Float[Tensor, "B H T S"]:
        """Zero everywhere."""
        B, H, S, _ = keys.shape
        return query.new_zeros(B, H, query.shape[1], S)

    def attend(
        self,
        query: Float[Tensor, "B T D"],
        keys: Float[Tensor, "B H S 0"],
        values: Float[Tensor, "B H S v"],
        visible: Bool[Tensor, "B H T S"],
    ) -> Float[Tensor, "B H T v"]:
        """Average what is visible."""
        return masked_softmax(self(query, keys), visible) @ values


def split_heads(x: Float[Tensor, "B N D"], heads: int) -> Float[Tensor, "B H N d"]:
    """Cut the last dimension into heads."""
    B, N, D = x.shape
    return x.view(B, N, heads, D // heads).transpose(1, 2)  # (B, N, D) -> (B, H, N, D/H)


def join_heads(x: Float[Tensor, "B H N d"]) -> Float[Tensor, "B N D"]:
    """Undo `split_heads`."""
    B, H, N, d = x.shape
    return x.transpose(1, 2).reshape(B, N, H * d)  # (B, H, N, d) -> (B, N, H*d)


def masked_softmax(
    energy: Float[Tensor, "*N S"], visible: Bool[Tensor, "*N S"]
) -> Float[Tensor, "*N S"]:
    """Softmax over the visible positions; a row that sees nothing gets zero weight everywhere."""
    lowest = torch.finfo(energy.dtype).min
    return energy.masked_fill(~visible, lowest).softmax(-1).masked_fill(~visible, 0.0)
