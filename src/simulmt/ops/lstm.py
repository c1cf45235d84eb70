"""An LSTM with normalised gates over a sequence, as one function of tensors.

    [i, f, o, z]_t = norm(driven_t + U h_t-1)       each gate's pre-activations normalised alone
    c_t = sigmoid(f) c_t-1 + sigmoid(i) tanh(z)
    h_t = sigmoid(o) c_t                            an ordinary LSTM has tanh(c_t) here

`reference` is that loop, with ordinary autograd, on any device. On the CPU each step is one
matrix product and one compiled kernel, forward and backward, and the gradient of U is one product
for all steps.
"""

from typing import Any, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional

from simulmt.ops.cpu import arrays, run_tiles, tiles_of

GATES = 4


class Gates(NamedTuple):
    """The parameters of a layer's recurrence."""

    recurrent: Float[Tensor, "4D D"]
    gain: Float[Tensor, "4 D"]
    bias: Float[Tensor, "4 D"]


def lstm(
    driven: Float[Tensor, "B N G"],
    hidden: Float[Tensor, "B D"],
    cell: Float[Tensor, "B D"],
    gates: Gates,
) -> tuple[Float[Tensor, "B N D"], Float[Tensor, "B D"]]:
    """The states h_1..h_N and the cell c_N (Chen et al. 2018; normalisation: Ba et al. 2016).

    Args:
        driven: W x_t, the inputs' part of the pre-activations, in the order i, f, o, z.
        hidden: h_0.
        cell: c_0.
        gates: the parameters.
    """
    if driven.device.type != "cpu":
        return reference(driven, hidden, cell, gates)
    dtype = gates.bias.dtype  # autocast may have made the inputs smaller
    driven, hidden, cell = (x.to(dtype) for x in (driven, hidden, cell))
    inputs = (torch.is_grad_enabled(), driven, hidden, cell, *gates)
    outputs: tuple[Tensor, Tensor] = _Sequence.apply(*inputs)  # type: ignore[no-untyped-call]
    return outputs


def reference(
    driven: Float[Tensor, "B N G"],
    hidden: Float[Tensor, "B D"],
    cell: Float[Tensor, "B D"],
    gates: Gates,
) -> tuple[Float[Tensor, "B N D"], Float[Tensor, "B D"]]:
    """The same, by the equations, step by step."""
    states = []
    for driven_t in driven.unbind(1):
        x = driven_t + functional.linear(hidden, gates.recurrent)
        x = x.view(len(x), GATES, -1)  # (B, 4*D) -> (B, 4, D)
        x = functional.layer_norm(x, x.shape[-1:]) * gates.gain + gates.bias
        enter, keep, leave = torch.sigmoid(x[:, :3]).unbind(1)
        cell = keep * cell + enter * torch.tanh(x[:, 3])
        hidden = leave * cell
        states.append(hidden)
    return torch.stack(states, 1), cell


class _Sequence(torch.autograd.Function):
    """All steps of one layer, differentiable once. Inside, time comes first."""

    @staticmethod
    def forward(
        ctx: Any, differentiable: bool, driven: Tensor, hidden: Tensor, cell: Tensor, *gates: Any
    ) -> tuple[Tensor, Tensor]:
        """Keeps the normalisation for the adjoint only if there will be one."""
        recurrent, gain, bias = gates
        B, N, _ = driven.shape
        D = hidden.shape[1]
        x = driven.transpose(0, 1).clone(memory_format=torch.contiguous_format)
        split = x.view(N, B, GATES, D)  # (N, B, 4*D) -> (N, B, 4, D)
        states, cells = driven.new_empty(2, N + 1, B, D)
        states[0], cells[0] = hidden, cell
        normal = torch.empty_like(split if differentiable else split[:0])
        scale = driven.new_empty(normal.shape[:3])
        given, product = arrays((split, gain, bias, normal, scale, cells, states)), recurrent.t()
        for t in range(N):
            x[t].addmm_(states[t], product)
            run_tiles("lstm_kernels.forward", B, B * GATES * D, given, t)
        ctx.save_for_backward(recurrent, states, cells, split, gain, normal, scale)
        return states[1:].transpose(0, 1), cells[-1].clone()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_states: Tensor, grad_last: Tensor) -> tuple[Tensor | None, ...]:
        recurrent, states, cells, gates, gain, normal, scale = ctx.saved_tensors
        N, B, _, D = gates.shape
        above = grad_states.transpose(0, 1).contiguous()
        flow, carried = grad_last.clone(), torch.zeros_like(cells[0])
        grad_gates = torch.empty_like(gates)
        rows = grad_gates.flatten(2)  # (N, B, 4, D) -> (N, B, 4*D)
        sums = gates.new_zeros(tiles_of(B), 2, GATES, D)
        inputs = above, carried, flow, gates, gain, normal, scale, cells
        given = arrays((*inputs, grad_gates, sums))
        for t in reversed(range(N)):
            run_tiles("lstm_kernels.adjoint", B, B * GATES * D, given, t)
            torch.mm(rows[t], recurrent, out=carried)
        grad_recurrent = rows.flatten(0, 1).t() @ states[:-1].flatten(0, 1)
        grad_gain, grad_bias = sums.sum(0).unbind(0)
        parameters = grad_recurrent, grad_gain, grad_bias
        return None, rows.transpose(0, 1), carried, flow, *parameters
