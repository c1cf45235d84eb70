"""Expected alignment and attention over tiles of 16 sentences, compiled for the CPU.

In memory a row is followed by the next row of the same sentence. So kernels read and write several
rows at a time, in pieces long enough for the processor to prefetch, and compute them row by row
(`cpu_rows`). A kernel works through the tiles `first` to `last - 1`, writes nothing outside them
and holds no lock and no state, so any number of kernels may run at a time.

All kernels have one signature: inputs and outputs in the order of `operators`, integers, tiles.
Arrays (N, T, S) arrive as (N, T S); a kernel for single rows has arrays (N, S).
"""

# mypy: disable-error-code="no-untyped-call"
from typing import TypeAlias

import numpy as np

from simulmt.ops import cpu_rows
from simulmt.ops.compiled import Array, compiled, exp
from simulmt.ops.cpu import LANES
from simulmt.ops.cpu_rows import first_row, load, store

Arrays: TypeAlias = tuple[Array, ...]
BLOCK = 1024  # positions read at a time: of all 16 sentences, 64 KiB in float32


@compiled
def _zeros(size: int, like: Array) -> tuple[Array, Array, Array, Array, Array, Array]:
    """Six arrays of zeros in the dtype of `like`."""
    x = np.zeros((6, size), like.dtype)
    return x[0], x[1], x[2], x[3], x[4], x[5]


# --- expected alignment ------------------------------------------------------------------------


@compiled
def _sizes(p: Array, initial: Array) -> tuple[int, int, int, int]:
    """Positions of a row; elements of 16 rows; positions of a sentence, and of a piece of it."""
    S, length = initial.shape[1], p.shape[1]
    return S, S * LANES, length, max(1, min(length, S * max(1, BLOCK // S)))


@compiled
def _load_above(alpha: Array, initial: Array, row: int, at: int, size: int, tile: Array) -> None:
    """Load the rows of alpha above those from `at` on; `initial` is above the first row."""
    S = initial.shape[1]
    if at > 0:
        load(alpha, row, at - S, size, tile)
    else:
        load(initial, row, 0, S, tile)
        load(alpha, row, 0, size - S, tile[S * LANES :])


@compiled
def alignment(inputs: Arrays, outputs: Arrays, first: int, last: int) -> None:
    """From p and initial to alpha, from the first row to the last."""
    (p, initial), (alpha,) = inputs, outputs
    S, n, length, step = _sizes(p, initial)
    stops, stands = np.zeros(step * LANES, p.dtype), np.zeros(step * LANES + n, p.dtype)
    for tile in range(first, last):
        row = first_row(tile, len(p))
        load(initial, row, 0, S, stands)
        for at in range(0, length, step):
            size = min(step, length - at)
            load(p, row, at, size, stops)
            for k in range(0, size * LANES, n):
                here, p_i = stands[k + n : k + 2 * n], stops[k : k + n]
                cpu_rows.arrive(stands[k : k + n], p_i, here)
                here *= p_i
            store(stands[n:], alpha, row, at, size)
            stands[:n] = stands[size * LANES : size * LANES + n]


@compiled
def alignment_adjoint(inputs: Arrays, outputs: Arrays, first: int, last: int) -> None:
    """From the last row to the first; q is computed again."""
    (grad, p, initial, alpha), (grad_p, grad_initial) = inputs, outputs
    S, n, length, step = _sizes(p, initial)
    stops, g, above, _, _, _ = _zeros(step * LANES, p)
    q, back = np.zeros(n, p.dtype), np.zeros(n, p.dtype)
    for tile in range(first, last):
        row = first_row(tile, len(p))
        back[:] = 0
        for end in range(length, 0, -step):
            at = max(0, end - step)
            size = end - at
            load(p, row, at, size, stops)
            load(grad, row, at, size, g)
            _load_above(alpha, initial, row, at, size, above)
            for k in range(size * LANES - n, -1, -n):
                cpu_rows.arrive(above[k : k + n], stops[k : k + n], q)
                cpu_rows.arrive_adjoint(g[k : k + n], q, stops[k : k + n], back)
            store(g, grad_p, row, at, size)
        store(back, grad_initial, row, 0, S)


# --- from logits to both, in one pass ----------------------------------------------------------


@compiled
def alignment_lookback(inputs: Arrays, outputs: Arrays, first: int, last: int) -> None:
    """`alignment` with p = sigmoid(logit), then `lookback`."""
    (logit, energy, initial), (alpha, beta) = inputs, outputs
    S, n, length, step = _sizes(logit, initial)
    stops, u, b, stands, _, _ = _zeros(step * LANES + n, logit)
    f, top, total, _, _, _ = _zeros(n, logit)
    for tile in range(first, last):
        row = first_row(tile, len(logit))
        load(initial, row, 0, S, stands)
        for at in range(0, length, step):
            size = min(step, length - at)
            load(logit, row, at, size, stops)
            load(energy, row, at, size, u)
            for k in range(0, size * LANES, n):
                here, p_i = stands[k + n : k + 2 * n], stops[k : k + n]
                cpu_rows.stop(p_i)
                cpu_rows.arrive(stands[k : k + n], p_i, here)
                here *= p_i
                cpu_rows.share(u[k : k + n], f, top, total)
                cpu_rows.spend(here, f, total, b[k : k + n])
            store(stands[n:], alpha, row, at, size)
            store(b, beta, row, at, size)
            stands[:n] = stands[size * LANES : size * LANES + n]


@compiled
def alignment_lookback_adjoint(inputs: Arrays, outputs: Arrays, first: int, last: int) -> None:
    """Computes p, alpha and beta again; an empty gradient stands for zeros."""
    grad_alpha, grad_beta, logit, energy, initial, alpha = inputs
    grad_logit, grad_energy, grad_initial = outputs
    S, n, length, step = _sizes(logit, initial)
    stops, u, b, above, g, g_alpha = _zeros(step * LANES, logit)
    f, mean, flow, q, here, back = _zeros(n, logit)
    for tile in range(first, last):
        row = first_row(tile, len(logit))
        back[:] = 0
        for end in range(length, 0, -step):
            at = max(0, end - step)
            size = end - at
            load(logit, row, at, size, stops)
            load(energy, row, at, size, u)
            load(grad_beta, row, at, size, g)
            if grad_alpha.size == 0:
                g_alpha[:] = 0
            load(grad_alpha, row, at, size, g_alpha)
            _load_above(alpha, initial, row, at, size, above)
            for k in range(size * LANES - n, -1, -n):
                p_i, b_i, g_i = stops[k : k + n], b[k : k + n], g_alpha[k : k + n]
                cpu_rows.stop(p_i)
                cpu_rows.arrive(above[k : k + n], p_i, q)
                np.multiply(q, p_i, here)
                cpu_rows.share(u[k : k + n], f, mean, flow)
                cpu_rows.spend(here, f, flow, b_i)
                cpu_rows.spend_adjoint(g[k : k + n], b_i, f, mean, flow)
                g_i += mean
                cpu_rows.arrive_adjoint(g_i, q, p_i, back)
                cpu_rows.stop_adjoint(g_i, p_i)
            store(b, grad_energy, row, at, size)
            store(g_alpha, grad_logit, row, at, size)
        store(back, grad_initial, row, 0, S)


# --- expected attention ------------------------------------------------------------------------


@compiled
def lookback(inputs: Arrays, outputs: Arrays, first: int, last: int) -> None:
    """From alpha and energy to beta."""
    (alpha, energy), (beta,) = inputs, outputs
    N, S = alpha.shape
    a, u, b, f, top, total = _zeros(S * LANES, alpha)
    for tile in range(first, last):
        row = first_row(tile, N)
        load(alpha, row, 0, S, a)
        load(energy, row, 0, S, u)
        cpu_rows.share(u, f, top, total)
        cpu_rows.spend(a, f, total, b)
        store(b, beta, row, 0, S)


@compiled
def lookback_adjoint(inputs: Arrays, outputs: Arrays, first: int, last: int) -> None:
    """Row by row; f is computed again, which is cheaper than to keep it."""
    (grad, energy, beta), (grad_alpha, grad_energy) = inputs, outputs
    N, S = beta.shape
    g, u, b, f, mean, flow = _zeros(S * LANES, beta)
    for tile in range(first, last):
        row = first_row(tile, N)
        load(grad, row, 0, S, g)
        load(energy, row, 0, S, u)
        load(beta, row, 0, S, b)
        cpu_rows.share(u, f, mean, flow)
        cpu_rows.spend_adjoint(g, b, f, mean, flow)
        store(mean, grad_alpha, row, 0, S)
        store(b, grad_energy, row, 0, S)


@compiled
def chunkwise(inputs: Arrays, outputs: Arrays, chunk: int, first: int, last: int) -> None:
    """From alpha and energy to beta."""
    (alpha, energy), (beta,) = inputs, outputs
    N, S = alpha.shape
    n = S * LANES
    a, u, b, top, total, _ = _zeros(n, alpha)
    for tile in range(first, last):
        row = first_row(tile, N)
        load(alpha, row, 0, S, a)
        load(energy, row, 0, S, u)
        cpu_rows.window(u, top, total, chunk)
        a /= total
        b[:] = 0
        for d in range(0, chunk * LANES, LANES):
            end, mass = top[d:], a[d:]
            for k in range(n - d):
                b[k] += mass[k] * exp(u[k] - end[k])
        store(b, beta, row, 0, S)


@compiled
def chunkwise_adjoint(inputs: Arrays, outputs: Arrays, chunk: int, first: int, last: int) -> None:
    """dL/dalpha_k = c_k = sum_j w_kj grad_j, with w_kj the share of j in the chunk that ends at k.

    dL/du_j = sum_k alpha_k w_kj (grad_j - c_k).
    """
    (grad, alpha, energy), (grad_alpha, grad_energy) = inputs, outputs
    N, S = alpha.shape
    n = S * LANES
    a, u, g, top, total, mean = _zeros(n, alpha)
    out = np.zeros(n, alpha.dtype)
    for tile in range(first, last):
        row = first_row(tile, N)
        load(grad, row, 0, S, g)
        load(alpha, row, 0, S, a)
        load(energy, row, 0, S, u)
        cpu_rows.window(u, top, total, chunk)
        mean[:] = 0
        for d in range(0, chunk * LANES, LANES):
            end, sums = top[d:], mean[d:]
            for k in range(n - d):
                sums[k] += g[k] * exp(u[k] - end[k])
        mean /= total
        a /= total
        out[:] = 0
        for d in range(0, chunk * LANES, LANES):
            end, mass, means = top[d:], a[d:], mean[d:]
            for k in range(n - d):
                out[k] += mass[k] * exp(u[k] - end[k]) * (g[k] - means[k])
        store(mean, grad_alpha, row, 0, S)
        store(out, grad_energy, row, 0, S)
