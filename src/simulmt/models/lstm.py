"""The LSTM of RNMT+ (Chen et al. 2018): layer normalisation in every gate, no output non-linearity.

[i, f, o, z]_t = norm(W x_t + U h_t-1)          each gate's pre-activations normalised on their own
c_t = sigmoid(f) c_t-1 + sigmoid(i) tanh(z)
h_t = sigmoid(o) c_t                            an ordinary LSTM has tanh(c_t) here
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.nn import functional

GATES = 4


class LSTMState(NamedTuple):
    """A layer between two steps."""

    hidden: Float[Tensor, "B D"]
    cell: Float[Tensor, "B D"]


class LSTM(nn.Module):
    """One layer, over whole sequences or step by step.

    Args:
        inputs: width of the inputs.
        dim: width D of the states.
        normalise: whether each gate's pre-activations are normalised (Ba et al. 2016).
        squash: whether the cell passes through tanh on its way out.
    """

    def __init__(
        self, inputs: int, dim: int, *, normalise: bool = True, squash: bool = False
    ) -> None:
        super().__init__()
        self.dim = dim
        self.normalise = normalise
        self.squash = squash
        self.input = nn.Linear(inputs, GATES * dim, bias=False)
        self.recurrent = nn.Linear(dim, GATES * dim, bias=False)
        self.bias = nn.Parameter(torch.zeros(GATES, dim))
        if normalise:
            self.gain = nn.Parameter(torch.ones(GATES, dim))
        bound = dim**-0.5
        for projection in (self.input, self.recurrent):
            nn.init.uniform_(projection.weight, -bound, bound)

    def initial_state(self, like: Float[Tensor, "B *N"]) -> LSTMState:
        """Zeros, a row for each of `like`."""
        zeros = like.new_zeros(len(like), self.dim)
        return LSTMState(zeros, zeros)

    def forward(self, x: Float[Tensor, "B N I"]) -> Float[Tensor, "B N D"]:
        """The states of whole sequences."""
        state = self.initial_state(x)
        outputs = []
        for driven in self.input(x).unbind(1):
            state = self._advance(driven, state)
            outputs.append(state.hidden)
        return torch.stack(outputs, 1)

    def step(self, x: Float[Tensor, "B I"], state: LSTMState) -> LSTMState:
        """The state after one more input."""
        return self._advance(self.input(x), state)

    def _advance(self, driven: Float[Tensor, "B 4D"], before: LSTMState) -> LSTMState:
        gates = driven + self.recurrent(before.hidden)
        gates = gates.view(-1, GATES, self.dim)  # (B, 4*D) -> (B, 4, D)
        if self.normalise:
            gates = functional.layer_norm(gates, (self.dim,)) * self.gain
        gates = gates + self.bias
        enter, keep, leave = torch.sigmoid(gates[:, :3]).unbind(1)
        cell = keep * before.cell + enter * torch.tanh(gates[:, 3])
        return LSTMState(leave * (torch.tanh(cell) if self.squash else cell), cell)


def reverse(x: Float[Tensor, "B S D"], mask: Bool[Tensor, "B S"]) -> Float[Tensor, "B S D"]:
    """Each sequence backwards, its padding left where it is; its own inverse."""
    places = torch.arange(x.shape[1], device=x.device)
    backwards = mask.sum(1, keepdim=True) - 1 - places  # (B, S), below 0 at padding
    order = backwards.where(mask, places)
    return x.gather(1, order[..., None].expand_as(x))
