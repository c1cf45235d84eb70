"""The energies of EMMA (Ma et al. 2023), from perceptrons that end in a ReLU, so from 0 on."""

import math

from jaxtyping import Float
from torch import Tensor, nn

from simulmt.attention.initial import xavier
from simulmt.attention.scores.score import Score, products, split_heads

_LAYERS = 4


class Perceptron(Score):
    """`f_q(s_i) . f_k(h_j) / sqrt(d_head)`; f is four times a linear layer and a ReLU.

    All heads share the two perceptrons; each head takes its slice of their outputs.
    """

    linear = False

    def __init__(self, dim: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.query, self.key = perceptron(dim), perceptron(dim)

    def keys(self, states: Float[Tensor, "B S D"]) -> Float[Tensor, "B H S d"]:
        """`f_k(h)`, split into heads."""
        return split_heads(self.key(states), self.heads)

    def forward(
        self, query: Float[Tensor, "B T D"], keys: Float[Tensor, "B H S d"]
    ) -> Float[Tensor, "B H T S"]:
        """Scaled dot products of every query with every key."""
        return products(self.query(query) / math.sqrt(keys.shape[-1]), keys)


def perceptron(dim: int) -> nn.Sequential:
    """A fresh perceptron of width `dim`."""
    linear = xavier(*(nn.Linear(dim, dim) for _ in range(_LAYERS)))  # energies near 0 at first
    return nn.Sequential(*(part for layer in linear for part in (layer, nn.ReLU())))
