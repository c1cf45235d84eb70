"""An LSTM with normalised gates over a sequence, as one function of tensors.

    [i, f, o, z]_t = norm(driven_t + U h_t-1)       each gate's pre-activations normalised alone
    c_t = sigmoid(f) c_t-1 + sigmoid(i) tanh(z)
    h_t = sigmoid(o) c_t                            an ordinary LSTM has tanh(c_t) here

`reference` is that loop, with ordinary autograd, on any device. On the CPU each step is one
matrix product and one compiled kernel, forward and backward, and the gradient of U is one product
for all steps.
"""

from __future__ import annotations

import importlib
from types import ModuleType
from typing import Any, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional

from simulmt.ops.tiles import run_tiles, tiles_of

GATES = 4


class Gates(NamedTuple):
    """The parameters of a layer's recurrence, and its form."""

    recurrent: Float[Tensor, "4D D"]
    gain: Float[Tensor, "4 D"] | None
    """None if the pre-activations are not normalised."""
    bias: Float[Tensor, "4 D"]
    squash: bool
    """Whether h_t is sigmoid(o) tanh(c_t), as in an ordinary LSTM."""


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
    if not torch.is_grad_enabled():
        states, cells, _ = _steps(driven, hidden, cell, gates, keep=False)
        return states[1:].transpose(0, 1), cells[-1]
    outputs: tuple[Tensor, Tensor] = _Sequence.apply(driven, hidden, cell, *gates)  # type: ignore[no-untyped-call]
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
        if gates.gain is not None:
            x = functional.layer_norm(x, x.shape[-1:]) * gates.gain
        x = x + gates.bias
        enter, keep, leave = torch.sigmoid(x[:, :3]).unbind(1)
        cell = keep * cell + enter * torch.tanh(x[:, 3])
        hidden = leave * (torch.tanh(cell) if gates.squash else cell)
        states.append(hidden)
    return torch.stack(states, 1), cell


def _kernels() -> ModuleType:
    return importlib.import_module("simulmt.ops.lstm_kernels")  # half a second, most of it numba


def _arrays(*tensors: Tensor) -> list[Any]:
    return [tensor.detach().numpy() for tensor in tensors]


def _steps(
    driven: Tensor, hidden: Tensor, cell: Tensor, gates: Gates, *, keep: bool
) -> tuple[Tensor, Tensor, tuple[Tensor, ...]]:
    """All steps of one layer. Time comes first in the results.

    Returns:
        h_0..h_N, c_0..c_N, and the gates and their normalisation, which is empty unless `keep`.
    """
    B, N, _ = driven.shape
    D = hidden.shape[1]
    x = driven.transpose(0, 1).clone(memory_format=torch.contiguous_format)
    states, cells = driven.new_empty(2, N + 1, B, D)
    states[0], cells[0] = hidden, cell
    normalise = gates.gain is not None
    weight = gates.bias if gates.gain is None else gates.gain
    normal = driven.new_empty((N, B, GATES, D) if normalise and keep else (0, 0, 0, 0))
    scale = driven.new_empty(normal.shape[:3])
    arrays = _arrays(x.view(N, B, GATES, D), weight, gates.bias, normal, scale, cells, states)
    product, kernel = gates.recurrent.t(), _kernels().forward
    for t in range(N):
        x[t].addmm_(states[t], product)
        run_tiles(kernel, B, B * GATES * D, *arrays, normalise, gates.squash, t)
    return states, cells, (x, normal, scale)


class _Sequence(torch.autograd.Function):
    """All steps of one layer, differentiable once."""

    @staticmethod
    def forward(
        ctx: Any, driven: Tensor, hidden: Tensor, cell: Tensor, *parameters: Any
    ) -> tuple[Tensor, Tensor]:
        gates = Gates(*parameters)
        states, cells, kept = _steps(driven, hidden, cell, gates, keep=True)
        weight = gates.bias if gates.gain is None else gates.gain
        ctx.save_for_backward(states, cells, *kept, gates.recurrent, weight)
        ctx.normalise, ctx.squash = gates.gain is not None, gates.squash
        return states[1:].transpose(0, 1), cells[-1].clone()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_states: Tensor, grad_last: Tensor) -> tuple[Tensor | None, ...]:
        states, cells, gates, normal, scale, recurrent, weight = ctx.saved_tensors
        B, N, D = grad_states.shape
        above = grad_states.transpose(0, 1).contiguous()
        flow, carried = grad_last.clone(), torch.zeros_like(cells[0])
        grad_gates = torch.empty_like(gates)
        sums = gates.new_zeros(tiles_of(B), 2, GATES, D)
        kept = gates.view(N, B, GATES, D), weight, normal, scale, cells
        arrays = _arrays(above, carried, flow, *kept, grad_gates.view(N, B, GATES, D), sums)
        kernel = _kernels().adjoint
        for t in reversed(range(N)):
            run_tiles(kernel, B, B * GATES * D, *arrays, ctx.normalise, ctx.squash, t)
            torch.mm(grad_gates[t], recurrent, out=carried)
        grad_recurrent = grad_gates.flatten(0, 1).t() @ states[:-1].flatten(0, 1)
        grad_gain, grad_bias = sums.sum(0).unbind(0)
        return (
            grad_gates.transpose(0, 1),
            carried,
            flow,
            grad_recurrent,
            grad_gain if ctx.normalise else None,
            grad_bias,
            None,
        )
