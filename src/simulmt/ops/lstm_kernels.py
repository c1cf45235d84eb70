"""One time step of the gates of an LSTM, compiled for the CPU: forward and adjoint.

Everything between the two products with the recurrent matrix, in one pass over the rows: the
layer normalisation of each gate, the sigmoids and the tanh, the cell. A kernel works through the
tiles `first` to `last - 1`, of 16 rows each, and writes nothing outside them.
"""

# mypy: disable-error-code="no-untyped-call"
from functools import partial
from typing import Any

import numpy as np

from simulmt.ops.compiled import ONE, Array, compiled, exp, sigmoid
from simulmt.ops.cpu import LANES

EPSILON = 1e-5
TWO = np.float32(2)


@compiled
def _tanh(x: Any) -> Any:
    e = exp(-TWO * abs(x))
    size = (ONE - e) / (ONE + e)
    return size if x > 0 else -size


@partial(compiled, any_order=True)
def _mean(x: Array) -> Any:
    total = x.dtype.type(0)
    for k in range(x.size):
        total += x[k]
    return total / x.dtype.type(x.size)


@partial(compiled, any_order=True)
def _dot(x: Array, y: Array) -> Any:
    total = x.dtype.type(0)
    for k in range(x.size):
        total += x[k] * y[k]
    return total


@compiled
def _normalise(x: Array) -> Any:
    """Normalise x in place; return 1 / standard deviation."""
    mean = _mean(x)
    for k in range(x.size):
        x[k] -= mean
    variance = _dot(x, x) / x.dtype.type(x.size)
    scale = x.dtype.type(1) / np.sqrt(variance + x.dtype.type(EPSILON))
    for k in range(x.size):
        x[k] *= scale
    return scale


@compiled
def forward(arrays: tuple[Array, ...], t: int, first: int, last: int) -> None:
    """Turn the pre-activations of step t in gates (N, B, 4, D) into the gates themselves.

    normal (N, B, 4, D) and scale (N, B, 4) keep the normalisation for the adjoint, unless they are
    empty. cells and hidden (N + 1, B, D) begin with the state before the first step.
    """
    gates, gain, bias, normal, scale, cells, hidden = arrays
    B, D = cells.shape[1:]
    for row in range(first * LANES, min(last * LANES, B)):
        x = gates[t, row]
        for g in range(len(x)):
            deviation = _normalise(x[g])
            if scale.size > 0:
                scale[t, row, g] = deviation
                normal[t, row, g] = x[g]
            x[g] *= gain[g]
            x[g] += bias[g]
        for g in range(len(x) - 1):
            for k in range(D):
                x[g, k] = sigmoid(x[g, k])
        enter, keep, leave, new = x[0], x[1], x[2], x[3]
        for k in range(D):
            new[k] = _tanh(new[k])
        before, cell, out = cells[t, row], cells[t + 1, row], hidden[t + 1, row]
        for k in range(D):
            cell[k] = keep[k] * before[k] + enter[k] * new[k]
            out[k] = leave[k] * cell[k]


@compiled
def adjoint(arrays: tuple[Array, ...], t: int, first: int, last: int) -> None:
    """Compute grad_gates (N, B, 4, D) of step t.

    Gradients reach h_t from above, grad_hidden (N, B, D), and from step t + 1 through the recurrent
    matrix, carried (B, D). grad_cell (B, D) goes from dL/dc_t through step t + 1 to dL/dc_t-1
    through step t. sums (tiles, 2, 4, D) collects the gradients of gain and bias.
    """
    grad_hidden, carried, grad_cell, gates, gain, normal, scale, cells, grad_gates, sums = arrays
    B, D = carried.shape
    for row in range(first * LANES, min(last * LANES, B)):
        x, y = gates[t, row], grad_gates[t, row]
        enter, keep, leave, new = x[0], x[1], x[2], x[3]
        to_enter, to_keep, to_leave, to_new = y[0], y[1], y[2], y[3]
        before, cell, flow = cells[t, row], cells[t + 1, row], grad_cell[row]
        above, after = grad_hidden[t, row], carried[row]
        for k in range(D):
            h = above[k] + after[k]
            c = flow[k] + h * leave[k]
            to_enter[k] = c * new[k] * enter[k] * (ONE - enter[k])
            to_keep[k] = c * before[k] * keep[k] * (ONE - keep[k])
            to_leave[k] = h * cell[k] * leave[k] * (ONE - leave[k])
            to_new[k] = c * enter[k] * (ONE - new[k] * new[k])
            flow[k] = c * keep[k]
        total = sums[row // LANES]
        total[1] += y
        for g in range(len(y)):
            grad, n = y[g], normal[t, row, g]
            for k in range(D):
                total[0, g, k] += grad[k] * n[k]
                grad[k] *= gain[g, k]
            mean, slope = _mean(grad), _dot(grad, n) / grad.dtype.type(D)
            for k in range(D):
                grad[k] = scale[t, row, g] * (grad[k] - mean - n[k] * slope)
