"""Additive scores (Bahdanau et al. 2014) and their normalised form (Raffel et al. 2017).

They are the scores of recurrent models. Each of several heads owns a slice of the hidden layer.
"""

import math

import torch
from jaxtyping import Float
from torch import Tensor, nn

from simulmt.attention.initial import xavier
from simulmt.attention.scores.score import ScoreFunction, split_heads
from simulmt.attention.shapes import Energies, Keys, Queries


class Additive(ScoreFunction):
    """`v^T tanh(W_s s + W_h h + b)`, for soft energies (Bahdanau et al. 2014).

    Args:
        dim: width of queries, states and hidden layer.
        heads: number of heads.
        bias: whether to add b. Luong's concat score, `v^T tanh(W [s; h])`, has no b.
    """

    linear = False

    def __init__(self, dim: int, heads: int, bias: bool = True) -> None:
        super().__init__()
        self.hidden = Hidden(dim, heads, bias)
        bound = math.sqrt(heads / dim)  # a variance of 1/(3 d), d being the width of a head
        self.v = nn.Parameter(torch.empty(heads, dim // heads).uniform_(-bound, bound))

    @property
    def direction(self) -> Float[Tensor, "H d"]:
        """What weighs the hidden layer."""
        return self.v

    def keys(self, states: Float[Tensor, "B S D"]) -> Keys:
        """`W_h h`."""
        return self.hidden.keys(states)

    def forward(self, query: Queries, keys: Keys) -> Energies:
        """Energies from one hidden layer for each pair of query and key."""
        return torch.einsum("bhtsd,hd->bhts", self.hidden(query, keys), self.direction)


class NormalisedAdditive(Additive):
    """`g v^T / ||v|| tanh(W_s s + W_h h + b)`, for selection energies (Raffel et al. 2017, eq. 16).

    The offset r of the paper's equation is a parameter of the schedule, not of the score.
    """

    def __init__(self, dim: int, heads: int) -> None:
        super().__init__(dim, heads)
        self.gain = nn.Parameter(torch.full((heads, 1), math.sqrt(heads / dim)))

    @property
    def direction(self) -> Float[Tensor, "H d"]:
        """A vector of length g."""
        scaled: Tensor = self.gain * (self.v / self.v.norm(dim=-1, keepdim=True))
        return scaled


class Hidden(nn.Module):
    """`tanh(W_s s + W_h h + b)`, the hidden layer of both scores."""

    def __init__(self, dim: int, heads: int, bias: bool) -> None:
        super().__init__()
        self.heads = heads
        self.query, self.key = xavier(
            nn.Linear(dim, dim, bias=bias), nn.Linear(dim, dim, bias=False)
        )

    def keys(self, states: Float[Tensor, "B S D"]) -> Keys:
        """`W_h h`."""
        return split_heads(self.key(states), self.heads)

    def forward(self, query: Queries, keys: Keys) -> Float[Tensor, "B H T S d"]:
        """The hidden layer for every pair of query and key."""
        queries = split_heads(self.query(query), self.heads)
        return torch.tanh(queries[:, :, :, None] + keys[:, :, None])
