"""The LSTM of RNMT+ (Chen et al. 2018): layer normalisation in every gate, no output non-linearity.

`simulmt.ops.lstm` has the equations.
"""

from typing import NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from simulmt.ops.lstm import GATES, Gates, lstm


class LSTMState(NamedTuple):
    """The state of a layer between two steps."""

    hidden: Float[Tensor, "B D"]
    cell: Float[Tensor, "B D"]


class LSTM(nn.Module):
    """One layer, over whole sequences or step by step.

    Args:
        inputs: width of the inputs.
        dim: width D of the states.
    """

    def __init__(self, inputs: int, dim: int) -> None:
        super().__init__()
        self.dim = dim
        self.input = nn.Linear(inputs, GATES * dim, bias=False)
        self.recurrent = nn.Linear(dim, GATES * dim, bias=False)
        self.bias = nn.Parameter(torch.zeros(GATES, dim))
        self.gain = nn.Parameter(torch.ones(GATES, dim))
        bound = dim**-0.5
        for projection in (self.input, self.recurrent):
            nn.init.uniform_(projection.weight, -bound, bound)

    def initial_state(self, like: Float[Tensor, "B *N"]) -> LSTMState:
        """Zeros, with a row for each row of `like`."""
        zeros = like.new_zeros(len(like), self.dim)
        return LSTMState(zeros, zeros)

    def forward(self, x: Float[Tensor, "B N I"]) -> Float[Tensor, "B N D"]:
        """The states of all positions of whole sequences."""
        return self._run(x, self.initial_state(x))[0]

    def step(self, x: Float[Tensor, "B I"], state: LSTMState) -> LSTMState:
        """The state after one more input."""
        states, cell = self._run(x[:, None], state)
        return LSTMState(states[:, 0], cell)

    def _run(self, x: Float[Tensor, "B N I"], state: LSTMState) -> tuple[Tensor, Tensor]:
        gates = Gates(self.recurrent.weight, self.gain, self.bias)
        return lstm(self.input(x), state.hidden, state.cell, gates)


def reverse(x: Float[Tensor, "B S D"], mask: Bool[Tensor, "B S"]) -> Float[Tensor, "B S D"]:
    """Each sequence backwards, with the padding left in its place; an involution."""
    places = torch.arange(x.shape[1], device=x.device)
    backwards = mask.sum(1, keepdim=True) - 1 - places  # (B, S), below 0 at padding
    order = backwards.where(mask, places)
    return x.gather(1, order[..., None].expand_as(x))
