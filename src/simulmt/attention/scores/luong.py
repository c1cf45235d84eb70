"""The scores of Luong et al. 2015: dot, general and location; concat is `Additive` without bias."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor, nn

from simulmt.attention.scores.score import Score, no_keys, products, split_heads


class Dot(Score):
    """`s^T h`, head by head on slices of both."""

    def __init__(self, dim: int, heads: int) -> None:
        super().__init__()
        self.heads = heads

    def keys(self, states: Float[Tensor, "B S D"]) -> Float[Tensor, "B H S d"]:
        """The states."""
        return split_heads(states, self.heads)

    def forward(
        self, query: Float[Tensor, "B T D"], keys: Float[Tensor, "B H S d"]
    ) -> Float[Tensor, "B H T S"]:
        """Dot products, not scaled."""
        return products(query, keys)


class General(Score):
    """`s^T W h`."""

    def __init__(self, dim: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.key = nn.Linear(dim, dim, bias=False)
        nn.init.xavier_uniform_(self.key.weight)

    def keys(self, states: Float[Tensor, "B S D"]) -> Float[Tensor, "B H S d"]:
        """`W h`."""
        return split_heads(self.key(states), self.heads)

    def forward(
        self, query: Float[Tensor, "B T D"], keys: Float[Tensor, "B H S d"]
    ) -> Float[Tensor, "B H T S"]:
        """Dot products with the projected states."""
        return products(query, keys)


class Location(Score):
    """`(W s)_j`: an energy for each place, whatever stands there.

    Places after the last one that W knows get no weight next to those it knows, as in the paper.
    """

    PLACES = 256

    def __init__(self, dim: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.places = nn.Linear(dim, heads * self.PLACES, bias=False)
        nn.init.xavier_uniform_(self.places.weight)

    def keys(self, states: Float[Tensor, "B S D"]) -> Float[Tensor, "B H S 0"]:
        """The states play no part."""
        return no_keys(states, self.heads)

    def forward(
        self, query: Float[Tensor, "B T D"], keys: Float[Tensor, "B H S 0"]
    ) -> Float[Tensor, "B H T S"]:
        """The first S places of `W s`."""
        S = keys.shape[2]
        energy = split_heads(self.places(query), self.heads)[..., :S]  # (B, H, T, <= S)
        beyond = S - energy.shape[-1]
        unknown = torch.finfo(energy.dtype).min / 2  # above what is invisible
        return nn.functional.pad(energy, (0, beyond), value=unknown)
