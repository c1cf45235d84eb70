"""The output layer of a decoder, as a value that an objective can take apart."""

from typing import NamedTuple

from jaxtyping import Float
from torch import Tensor
from torch.nn import functional


class Projection(NamedTuple):
    """A linear layer from a decoder's states to logits."""

    weight: Float[Tensor, "V E"]
    bias: Float[Tensor, "V"] | None = None

    def __call__(self, states: Float[Tensor, "*B E"]) -> Float[Tensor, "*B V"]:
        """The logits of some states."""
        return functional.linear(states, self.weight, self.bias)
