"""The output layer of a decoder, as a value that an objective can take apart.

Stored row by row, the large matrix of this layer is slow on a CPU. Stored column by column, it is
multiplied with one vector in less than half the time. Several vectors take about three quarters of
the time if they are multiplied with one block of the matrix after the other.
"""

from collections.abc import Mapping
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional

from simulmt.models.embedding import TiedEmbedding

BLOCK = 4096
"""The subwords of a block: its logits and its part of the matrix stay in the cache."""
_ROWS = 8
"""The rows whose logits are held at a time: the logits of more rows would exceed the cache."""


class Projection(NamedTuple):
    """A linear layer from a decoder's states to logits."""

    weight: Float[Tensor, "V E"]
    bias: Float[Tensor, "V"] | None = None

    def __call__(self, states: Float[Tensor, "*B E"]) -> Float[Tensor, "*B V"]:
        """The logits of some states."""
        return functional.linear(states, self.weight, self.bias)

    def likelihoods(
        self, states: Float[Tensor, "B T E"], tokens: Int[Tensor, "B T"]
    ) -> Float[Tensor, "B T"]:
        """The log-likelihoods of tokens; the logits of a few rows are held at a time."""
        parts = zip(torch.split(states, _ROWS), torch.split(tokens, _ROWS), strict=True)
        found = [self(own).log_softmax(-1).gather(-1, of[..., None])[..., 0] for own, of in parts]
        return torch.cat(found)

    def of_step(self, states: Float[Tensor, "B E"]) -> Float[Tensor, "B V"]:
        """The logits of a step of decoding, on a CPU block by block."""
        weight, bias = self
        on_cpu = isinstance(weight, Tensor) and weight.device.type == "cpu"
        if not on_cpu or len(states) == 1 or len(weight) <= BLOCK:
            return self(states)
        blocks = torch.split(weight, BLOCK)
        biases = [None] * len(blocks) if bias is None else torch.split(bias, BLOCK)
        return torch.cat([*map(functional.linear, [states] * len(blocks), blocks, biases)], -1)


def by_columns(weights: Mapping[str, Tensor], model: nn.Module, size: int) -> dict[str, Tensor]:
    """The weights of a model, the matrix of its output layer stored column by column.

    Args:
        weights: by their names in the model; the others are shared with the result.
        model: of which nothing but names and sizes is used.
        size: the number of subwords.
    """
    shapes = {
        f"{name}.weight": layer.weight.shape
        for name, layer in model.named_modules()
        if isinstance(layer, (nn.Linear, TiedEmbedding)) and len(layer.weight) == size
    }
    return {
        name: weight.t().contiguous().t() if weight.shape == shapes.get(name) else weight
        for name, weight in weights.items()
    }
