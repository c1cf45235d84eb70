"""One time step of the gates of an LSTM, compiled for the CPU: forward and adjoint.

Everything between the two products with the recurrent matrix, in one pass over the rows: the
layer normalisation of each gate, the sigmoids and the tanh, the cell. A kernel works through the
tiles `first..last` of 16 rows and touches nothing else.
"""

# mypy: disable-error-code="no-untyped-call"
from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np

from simulmt.ops.compiled import ONE, compiled
from simulmt.ops.exponential import exp
from simulmt.ops.lstm import GATES
from simulmt.ops.tiles import LANES

Array: TypeAlias = "np.ndarray[Any, Any]"

EPSILON = 1e-5
TWO = np.float32(2)


@compiled
def _sigmoid(x: Any) -> Any:
    e = exp(-abs(x))
    return (ONE if x > 0 else e) / (ONE + e)


@compiled
def _tanh(x: Any) -> Any:
    e = exp(-TWO * abs(x))
    size = (ONE - e) / (ONE + e)
    return size if x > 0 else -size


def _any_order(function: Any) -> Any:
    return compiled(function, any_order=True)


@_any_order
def _mean(x: Array) -> Any:
    total = x.dtype.type(0)
    for k in range(x.size):
        total += x[k]
    return total / x.dtype.type(x.size)


@_any_order
def _dot(x: Array, y: Array) -> Any:
    total = x.dtype.type(0)
    for k in range(x.size):
        total += x[k] * y[k]
    return total


@compiled
def _normalise(x: Array) -> Any:
    """In place; returns 1 / standard deviation."""
    mean = _mean(x)
    for k in range(x.size):
        x[k] -= mean
    one = x.dtype.type(1)
    variance = _dot(x, x) / x.dtype.type(x.size)
    scale = one / np.sqrt(variance + x.dtype.type(EPSILON))
    for k in range(x.size):
        x[k] *= scale
    return scale


@compiled
def forward(
    gates: Array,
    gain: Array,
    bias: Array,
    normal: Array,
    scale: Array,
    cells: Array,
    hidden: Array,
    normalise: bool,
    squash: bool,
    t: int,
    first: int,
    last: int,
) -> None:
    """In gates (N, B, 4, D) the pre-activations of step t become the gates themselves.

    normal (N, B, 4, D) and scale (N, B, 4) keep the normalisation for the adjoint; cells and
    hidden (N + 1, B, D) begin with the state before the first step.
    """
    B, D = cells.shape[1:]
    for row in range(first * LANES, min(last * LANES, B)):
        x = gates[t, row]
        for g in range(GATES):
            if normalise:
                scale[t, row, g] = _normalise(x[g])
                normal[t, row, g] = x[g]
                x[g] *= gain[g]
            x[g] += bias[g]
        for g in range(GATES - 1):
            for k in range(D):
                x[g, k] = _sigmoid(x[g, k])
        for k in range(D):
            x[GATES - 1, k] = _tanh(x[GATES - 1, k])
        enter, keep, leave, new = x[0], x[1], x[2], x[3]
        before, cell, out = cells[t, row], cells[t + 1, row], hidden[t + 1, row]
        for k in range(D):
            cell[k] = keep[k] * before[k] + enter[k] * new[k]
        if squash:
            for k in range(D):
                out[k] = leave[k] * _tanh(cell[k])
        else:
            for k in range(D):
                out[k] = leave[k] * cell[k]


@compiled
def adjoint(
    grad_hidden: Array,
    carried: Array,
    grad_cell: Array,
    gates: Array,
    gain: Array,
    normal: Array,
    scale: Array,
    cells: Array,
    grad_gates: Array,
    sums: Array,
    normalise: bool,
    squash: bool,
    t: int,
    first: int,
    last: int,
) -> None:
    """grad_gates (N, B, 4, D) of step t, from what came from above and from the step after.

    grad_hidden (N, B, D) is what came from above, carried (B, D) from step t + 1 through the
    recurrent matrix, and grad_cell (B, D) through the cell; it is brought back to step t - 1.
    sums (tiles, 2, 4, D) collects the gradients of gain and bias.
    """
    B, D = carried.shape
    for row in range(first * LANES, min(last * LANES, B)):
        x, y = gates[t, row], grad_gates[t, row]
        enter, keep, leave, new = x[0], x[1], x[2], x[3]
        to_enter, to_keep, to_leave, to_new = y[0], y[1], y[2], y[3]
        before, cell, flow = cells[t, row], cells[t + 1, row], grad_cell[row]
        above, after = grad_hidden[t, row], carried[row]
        for k in range(D):
            h = above[k] + after[k]
            seen = _tanh(cell[k]) if squash else cell[k]
            slope = ONE - seen * seen if squash else ONE
            c = flow[k] + h * leave[k] * slope
            to_enter[k] = c * new[k] * enter[k] * (ONE - enter[k])
            to_keep[k] = c * before[k] * keep[k] * (ONE - keep[k])
            to_leave[k] = h * seen * leave[k] * (ONE - leave[k])
            to_new[k] = c * enter[k] * (ONE - new[k] * new[k])
            flow[k] = c * keep[k]
        for g in range(GATES):
            x, total = y[g], sums[row // LANES]
            to_gain, to_bias = total[0, g], total[1, g]
            for k in range(D):
                to_bias[k] += x[k]
            if normalise:
                n, weight = normal[t, row, g], gain[g]
                for k in range(D):
                    to_gain[k] += x[k] * n[k]
                    x[k] *= weight[k]
                mean, slope = _mean(x), _dot(x, n) / x.dtype.type(D)
                for k in range(D):
                    x[k] = scale[t, row, g] * (x[k] - mean - n[k] * slope)
