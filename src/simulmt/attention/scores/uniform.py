"""The score of a span that lets a head see one position only."""

from __future__ import annotations

from jaxtyping import Float
from torch import Tensor

from simulmt.attention.scores.score import Score, no_keys


class Uniform(Score):
    """An energy of zero for every position."""

    def __init__(self, heads: int) -> None:
        super().__init__()
        self.heads = heads

    def keys(self, states: Float[Tensor, "B S D"]) -> Float[Tensor, "B H S 0"]:
        """Keys of width 0: there is nothing to compare."""
        return no_keys(states, self.heads)

    def forward(
        self, query: Float[Tensor, "B T D"], keys: Float[Tensor, "B H S 0"]
    ) -> Float[Tensor, "B H T S"]:
        """Zero everywhere."""
        B, H, S, _ = keys.shape
        return query.new_zeros(B, H, query.shape[1], S)
