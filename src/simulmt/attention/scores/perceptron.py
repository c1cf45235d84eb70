"""The energies of EMMA (Ma et al. 2023), from perceptrons that end in a ReLU, so from 0 on."""

from torch import nn

from simulmt.attention.initial import xavier
from simulmt.attention.scores.scaled_dot_product import ProjectedDotProduct

_LAYERS = 4


class Perceptron(ProjectedDotProduct):
    """`f_q(s_i) . f_k(h_j) / sqrt(d_head)`; f is four times a linear layer and a ReLU.

    All heads share the two perceptrons; each head takes its slice of their outputs.
    """

    linear = False

    def __init__(self, dim: int, heads: int) -> None:
        super().__init__(heads, perceptron(dim), perceptron(dim))


def perceptron(dim: int) -> nn.Sequential:
    """A fresh perceptron of width `dim`."""
    linear = xavier(*(nn.Linear(dim, dim) for _ in range(_LAYERS)))  # energies near 0 at first
    return nn.Sequential(*(part for layer in linear for part in (layer, nn.ReLU())))
