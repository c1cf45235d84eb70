"""Loops compiled for the CPU: expected alignment and attention, forward and adjoint.

How they are fast: a tile (`compiled_tiles`) holds the same row of 16 sentences (or heads) side by
side, flat, so that position `j` of all of them is the 16 elements from `16 j` on. They are one
value to the compiler (`lanes`), and a recurrence over positions is a loop that reads like its
equation. What follows a row in memory is the next row of the same sentence, so that tiles are read
and written for several rows at a time, in pieces long enough for the processor to see what comes.
A kernel works through the tiles `first..last` and touches nothing else, holds no lock and no state,
so any number of them may run at a time.

All arrays are flat; the sizes (N, T, S), or (N, S), follow them.
"""

# mypy: disable-error-code="no-untyped-call"
from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np

from simulmt.ops.compiled import compiled
from simulmt.ops.compiled_tiles import first_row, load, store
from simulmt.ops.exponential import exp
from simulmt.ops.lanes import choose, every, get, put
from simulmt.ops.tiles import LANES

Array: TypeAlias = "np.ndarray[Any, Any]"
BLOCK = 1024  # positions read at a time: of all 16 sentences, 64 KiB in float32


@compiled
def _rows_at_a_time(T: int, S: int) -> int:
    return max(1, min(T, BLOCK // S))


# --- one row of a tile -------------------------------------------------------------------------


@compiled
def _stop(x: Array) -> None:
    """p_j = sigmoid(e_j), in place."""
    for k in range(0, x.size, LANES):
        logit = get(x, k)
        e = exp(0 - abs(logit))
        put(x, k, choose(logit, 0, 1, e) / (1 + e))


@compiled
def _stop_adjoint(grad: Array, p: Array) -> None:
    """`grad` goes from dL/dp to dL/de."""
    for k in range(0, p.size, LANES):
        p_j = get(p, k)
        put(grad, k, get(grad, k) * p_j * (1 - p_j))


@compiled
def _arrive(above: Array, p: Array, q: Array) -> None:
    """q_j = alpha_j of the row above + (1 - p_j-1) q_j-1."""
    passing = every(0, q)
    for k in range(0, q.size, LANES):
        q_j = get(above, k) + passing
        put(q, k, q_j)
        passing = (1 - get(p, k)) * q_j


@compiled
def _arrive_adjoint(grad: Array, q: Array, p: Array, back: Array) -> None:
    """`grad` goes from dL/dalpha to dL/dp, `back` from dL/dq of the row below to that of this."""
    passed = every(0, q)
    for right in range(LANES, q.size + 1, LANES):
        k = q.size - right
        stop, stood = get(p, k), get(grad, k) + get(back, k)
        put(grad, k, get(q, k) * (stood - passed))
        passed = stop * stood + (1 - stop) * passed
        put(back, k, passed)


@compiled
def _share(u: Array, f: Array) -> None:
    """f_j = exp(u_j - L_j), the share of u_j in the softmax over u_1..u_j.

    L is kept as (top, total), the largest energy so far and the sum of exp(u - top).
    """
    top, total = get(u, 0), every(0, u)
    for k in range(0, u.size, LANES):
        energy = get(u, k)
        rise = energy - top
        e = exp(0 - abs(rise))  # the one exponential: of the new term, or of the old maximum
        total = choose(rise, 0, total * e + 1, total + e)
        put(f, k, choose(rise, 0, 1, e) / total)
        top = choose(rise, 0, energy, top)


@compiled
def _spend(alpha: Array, f: Array, beta: Array) -> None:
    """beta_j = f_j R_j with R_j = alpha_j + (1 - f_j+1) R_j+1: what is left flows to the left.

    For exp(L_j-1 - L_j) is 1 - f_j.
    """
    left = every(0, alpha)
    for right in range(LANES, alpha.size + 1, LANES):
        k = alpha.size - right
        flow, share = get(alpha, k) + left, get(f, k)
        put(beta, k, share * flow)
        left = (1 - share) * flow


@compiled
def _spend_adjoint(grad: Array, beta: Array, f: Array) -> None:
    """`grad` goes from dL/dbeta to dL/dalpha, `beta` to dL/du; linear in S.

    c_k = sum_{j<=k} softmax(u_1..u_k)_j grad_j is dL/dalpha_k, a running mean, and
    t_k = beta_k (1 - f_k) (grad_k - c_k-1) what u_k moves between itself and everything before;
    dL/du_j = t_j - f_j sum_{k>j} t_k exp(L_j - L_k-1).
    """
    mean = every(0, grad)
    for k in range(0, grad.size, LANES):
        share, g = get(f, k), get(grad, k)
        put(beta, k, get(beta, k) * (1 - share) * (g - mean))
        mean = share * g + (1 - share) * mean
        put(grad, k, mean)
    flow = every(0, grad)
    for right in range(LANES, grad.size + 1, LANES):
        k = grad.size - right
        share, t = get(f, k), get(beta, k)
        put(beta, k, t - share * flow)
        flow = t + (1 - share) * flow


# --- expected alignment ------------------------------------------------------------------------


@compiled
def alignment(
    p: Array, initial: Array, alpha: Array, N: int, T: int, S: int, first: int, last: int
) -> None:
    """p, alpha (N, T, S) and initial (N, S)."""
    lanes, n, stride, most = min(LANES, N), S * LANES, T * S, _rows_at_a_time(T, S)
    stop, stand = np.zeros(most * n, p.dtype), np.zeros((most + 1) * n, p.dtype)
    for tile in range(first, last):
        row = first_row(tile, N)
        load(initial, row * S, S, lanes, stand, S)
        for t in range(0, T, most):
            rows, at = min(most, T - t), row * stride + t * S
            load(p, at, stride, lanes, stop, rows * S)
            for k in range(0, rows * n, n):
                above, here, p_i = stand[k : k + n], stand[k + n : k + 2 * n], stop[k : k + n]
                _arrive(above, p_i, here)
                here *= p_i
            store(stand[n:], alpha, at, stride, lanes, rows * S)
            stand[:n] = stand[rows * n : (rows + 1) * n]


@compiled
def alignment_adjoint(
    grad: Array,
    p: Array,
    initial: Array,
    alpha: Array,
    grad_p: Array,
    grad_initial: Array,
    N: int,
    T: int,
    S: int,
    first: int,
    last: int,
) -> None:
    """From the last row to the first."""
    lanes, n, stride, most = min(LANES, N), S * LANES, T * S, _rows_at_a_time(T, S)
    stop, g = np.zeros(most * n, p.dtype), np.zeros(most * n, p.dtype)
    q, back = np.zeros(most * n, p.dtype), np.zeros(n, p.dtype)
    for tile in range(first, last):
        row = first_row(tile, N)
        back[:] = 0
        for end in range(T, 0, -most):
            t = max(0, end - most)
            rows, at = end - t, row * stride + t * S
            load(p, at, stride, lanes, stop, rows * S)
            load(grad, at, stride, lanes, g, rows * S)
            _load_above(alpha, initial, row, t, T, S, lanes, q, rows)
            for k in range((rows - 1) * n, -1, -n):
                q_i, p_i = q[k : k + n], stop[k : k + n]
                _arrive(q_i, p_i, q_i)
                _arrive_adjoint(g[k : k + n], q_i, p_i, back)
            store(g, grad_p, at, stride, lanes, rows * S)
        store(back, grad_initial, row * S, S, lanes, S)


@compiled
def _load_above(
    alpha: Array,
    initial: Array,
    row: int,
    t: int,
    T: int,
    S: int,
    lanes: int,
    tile: Array,
    rows: int,
) -> None:
    """Alpha of the rows before t, t + 1, ..., the first of which may be `initial`."""
    at = row * T * S + t * S
    if t > 0:
        load(alpha, at - S, T * S, lanes, tile, rows * S)
    else:
        load(initial, row * S, S, lanes, tile, S)
        load(alpha, at, T * S, lanes, tile[S * LANES :], (rows - 1) * S)


# --- expected attention ------------------------------------------------------------------------


@compiled
def lookback(
    alpha: Array, energy: Array, beta: Array, N: int, S: int, first: int, last: int
) -> None:
    """alpha, energy, beta (N, S)."""
    lanes, n = min(LANES, N), S * LANES
    a, u, f = np.zeros(n, alpha.dtype), np.zeros(n, alpha.dtype), np.zeros(n, alpha.dtype)
    for tile in range(first, last):
        at = first_row(tile, N) * S
        load(alpha, at, S, lanes, a, S)
        load(energy, at, S, lanes, u, S)
        _share(u, f)
        _spend(a, f, u)
        store(u, beta, at, S, lanes, S)


@compiled
def lookback_adjoint(
    grad: Array,
    energy: Array,
    beta: Array,
    grad_alpha: Array,
    grad_energy: Array,
    N: int,
    S: int,
    first: int,
    last: int,
) -> None:
    """Row by row; f is computed again, which is cheaper than to keep it."""
    lanes, n = min(LANES, N), S * LANES
    b, g = np.zeros(n, beta.dtype), np.zeros(n, beta.dtype)
    u, f = np.zeros(n, beta.dtype), np.zeros(n, beta.dtype)
    for tile in range(first, last):
        at = first_row(tile, N) * S
        load(energy, at, S, lanes, u, S)
        load(beta, at, S, lanes, b, S)
        load(grad, at, S, lanes, g, S)
        _share(u, f)
        _spend_adjoint(g, b, f)
        store(g, grad_alpha, at, S, lanes, S)
        store(b, grad_energy, at, S, lanes, S)


# --- from logits to both, in one pass ----------------------------------------------------------


@compiled
def alignment_lookback(
    logit: Array,
    energy: Array,
    initial: Array,
    alpha: Array,
    beta: Array,
    N: int,
    T: int,
    S: int,
    first: int,
    last: int,
) -> None:
    """`alignment` with p = sigmoid(logit), then `lookback`."""
    lanes, n, stride, most = min(LANES, N), S * LANES, T * S, _rows_at_a_time(T, S)
    stop, u = np.zeros(most * n, logit.dtype), np.zeros(most * n, logit.dtype)
    stand, f = np.zeros((most + 1) * n, logit.dtype), np.zeros(n, logit.dtype)
    for tile in range(first, last):
        row = first_row(tile, N)
        load(initial, row * S, S, lanes, stand, S)
        for t in range(0, T, most):
            rows, at = min(most, T - t), row * stride + t * S
            load(logit, at, stride, lanes, stop, rows * S)
            load(energy, at, stride, lanes, u, rows * S)
            for k in range(0, rows * n, n):
                above, here = stand[k : k + n], stand[k + n : k + 2 * n]
                p_i, u_i = stop[k : k + n], u[k : k + n]
                _stop(p_i)
                _arrive(above, p_i, here)
                here *= p_i
                _share(u_i, f)
                _spend(here, f, u_i)
            store(stand[n:], alpha, at, stride, lanes, rows * S)
            store(u, beta, at, stride, lanes, rows * S)
            stand[:n] = stand[rows * n : (rows + 1) * n]


@compiled
def alignment_lookback_adjoint(
    grad_alpha: Array,
    grad_beta: Array,
    logit: Array,
    energy: Array,
    initial: Array,
    alpha: Array,
    grad_logit: Array,
    grad_energy: Array,
    grad_initial: Array,
    N: int,
    T: int,
    S: int,
    first: int,
    last: int,
) -> None:
    """Computes p and beta again; an empty `grad_alpha` stands for zeros."""
    lanes, n, stride, most = min(LANES, N), S * LANES, T * S, _rows_at_a_time(T, S)
    stop, u = np.zeros(most * n, logit.dtype), np.zeros(most * n, logit.dtype)
    g, g_alpha = np.zeros(most * n, logit.dtype), np.zeros(most * n, logit.dtype)
    stand, f = np.zeros((most + 1) * n, logit.dtype), np.zeros(n, logit.dtype)
    q, back = np.zeros(n, logit.dtype), np.zeros(n, logit.dtype)
    for tile in range(first, last):
        row = first_row(tile, N)
        back[:] = 0
        if T > 0:
            load(alpha, (row + 1) * stride - S, stride, lanes, stand, S)
        for end in range(T, 0, -most):
            t = max(0, end - most)
            rows, at = end - t, row * stride + t * S
            load(logit, at, stride, lanes, stop, rows * S)
            load(energy, at, stride, lanes, u, rows * S)
            load(grad_beta, at, stride, lanes, g, rows * S)
            if grad_alpha.size > 0:
                load(grad_alpha, at, stride, lanes, g_alpha, rows * S)
            stand[rows * n : (rows + 1) * n] = stand[:n]
            _load_above(alpha, initial, row, t, T, S, lanes, stand, rows)
            for k in range((rows - 1) * n, -1, -n):
                above, here = stand[k : k + n], stand[k + n : k + 2 * n]
                p_i, u_i, g_i = stop[k : k + n], u[k : k + n], g[k : k + n]
                _share(u_i, f)
                _spend(here, f, u_i)
                _spend_adjoint(g_i, u_i, f)
                g_i += g_alpha[k : k + n]
                _stop(p_i)
                _arrive(above, p_i, q)
                _arrive_adjoint(g_i, q, p_i, back)
                _stop_adjoint(g_i, p_i)
            store(u, grad_energy, at, stride, lanes, rows * S)
            store(g, grad_logit, at, stride, lanes, rows * S)
        store(back, grad_initial, row * S, S, lanes, S)
