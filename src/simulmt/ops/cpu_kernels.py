"""Expected alignment and attention over tiles of 16 sentences, compiled for the CPU.

What follows a row in memory is the next row of the same sentence. Kernels therefore read and write
several rows at a time (`transposition`), in pieces long enough for the processor to prefetch, and
compute them row by row (`cpu_rows`). A kernel works through the tiles `first..last`, writes nothing
outside them and holds neither lock nor state, so any number of kernels may run at a time.

All kernels have one signature: inputs and outputs in the order of `operators`, integers, tiles.
Arrays (N, T, S) arrive as (N, T S); a kernel for single rows has arrays (N, S).
"""

# mypy: disable-error-code="no-untyped-call"
from __future__ import annotations

from typing import TypeAlias

import numpy as np

from simulmt.ops import cpu_rows as row
from simulmt.ops.compiled import Array, compiled, exp
from simulmt.ops.tiles import LANES
from simulmt.ops.transposition import load, rows_of, store

Arrays: TypeAlias = tuple[Array, ...]
BLOCK = 1024  # positions read at a time: of all 16 sentences, 64 KiB in float32


@compiled
def _zeros(size: int, like: Array) -> tuple[Array, Array, Array, Array, Array, Array]:
    """Six arrays of zeros in the dtype of `like`."""
    x = np.zeros((6, size), like.dtype)
    return x[0], x[1], x[2], x[3], x[4], x[5]


# --- expected alignment ------------------------------------------------------------------------


@compiled
def _sizes(p: Array, initial: Array) -> tuple[int, int, int]:
    """A sentence's positions, how many of them to read at a time (whole rows), a tile's row."""
    S, length = initial.shape[1], p.shape[1]
    return length, max(1, min(length, S * max(1, BLOCK // S))), S * LANES


@compiled
def _load_above(alpha: Array, initial: Array, rows: slice, piece: slice, tile: Array) -> None:
    """Load the rows of alpha above those of a piece; `initial` is above the first row."""
    S = initial.shape[1]
    if piece.start > 0:
        load(alpha[rows, piece.start - S : piece.stop - S], tile)
    else:
        load(initial[rows], tile)
        load(alpha[rows, : piece.stop - S], tile[S * LANES :])


@compiled
def alignment(inputs: Arrays, outputs: Arrays, first: int, last: int) -> None:
    """From p and initial to alpha, from the first row to the last."""
    (p, initial), (alpha,) = inputs, outputs
    length, step, n = _sizes(p, initial)
    stops, stands = np.zeros(step * LANES, p.dtype), np.zeros(step * LANES + n, p.dtype)
    for tile in range(first, last):
        rows = rows_of(tile, len(p))
        load(initial[rows], stands)
        for at in range(0, length, step):
            piece = slice(at, min(at + step, length))
            size = (piece.stop - at) * LANES
            load(p[rows, piece], stops)
            for k in range(0, size, n):
                here, p_i = stands[k + n : k + 2 * n], stops[k : k + n]
                row.arrive(stands[k : k + n], p_i, here)
                here *= p_i
            store(stands[n:], alpha[rows, piece])
            stands[:n] = stands[size : size + n]


@compiled
def alignment_adjoint(inputs: Arrays, outputs: Arrays, first: int, last: int) -> None:
    """From the last row to the first; q is computed again."""
    (grad, p, initial, alpha), (grad_p, grad_initial) = inputs, outputs
    length, step, n = _sizes(p, initial)
    stops, g, above, _, _, _ = _zeros(step * LANES, p)
    q, back = np.zeros(n, p.dtype), np.zeros(n, p.dtype)
    for tile in range(first, last):
        rows = rows_of(tile, len(p))
        back[:] = 0
        for end in range(length, 0, -step):
            piece = slice(max(0, end - step), end)
            load(p[rows, piece], stops)
            load(grad[rows, piece], g)
            _load_above(alpha, initial, rows, piece, above)
            for k in range((end - piece.start) * LANES - n, -1, -n):
                row.arrive(above[k : k + n], stops[k : k + n], q)
                row.arrive_adjoint(g[k : k + n], q, stops[k : k + n], back)
            store(g, grad_p[rows, piece])
        store(back, grad_initial[rows])


# --- from logits to both, in one pass ----------------------------------------------------------


@compiled
def alignment_lookback(inputs: Arrays, outputs: Arrays, first: int, last: int) -> None:
    """`alignment` with p = sigmoid(logit), then `lookback`."""
    (logit, energy, initial), (alpha, beta) = inputs, outputs
    length, step, n = _sizes(logit, initial)
    stops, u, b, stands, _, _ = _zeros(step * LANES + n, logit)
    f, top, total, _, _, _ = _zeros(n, logit)
    for tile in range(first, last):
        rows = rows_of(tile, len(logit))
        load(initial[rows], stands)
        for at in range(0, length, step):
            piece = slice(at, min(at + step, length))
            size = (piece.stop - at) * LANES
            load(logit[rows, piece], stops)
            load(energy[rows, piece], u)
            for k in range(0, size, n):
                here, p_i = stands[k + n : k + 2 * n], stops[k : k + n]
                row.stop(p_i)
                row.arrive(stands[k : k + n], p_i, here)
                here *= p_i
                row.share(u[k : k + n], f, top, total)
                row.spend(here, f, total, b[k : k + n])
            store(stands[n:], alpha[rows, piece])
            store(b, beta[rows, piece])
            stands[:n] = stands[size : size + n]


@compiled
def alignment_lookback_adjoint(inputs: Arrays, outputs: Arrays, first: int, last: int) -> None:
    """Computes p, alpha and beta again; an empty gradient stands for zeros."""
    grad_alpha, grad_beta, logit, energy, initial, alpha = inputs
    grad_logit, grad_energy, grad_initial = outputs
    length, step, n = _sizes(logit, initial)
    stops, u, b, above, g, g_alpha = _zeros(step * LANES, logit)
    f, mean, flow, q, here, back = _zeros(n, logit)
    for tile in range(first, last):
        rows = rows_of(tile, len(logit))
        back[:] = 0
        for end in range(length, 0, -step):
            piece = slice(max(0, end - step), end)
            load(logit[rows, piece], stops)
            load(energy[rows, piece], u)
            load(grad_beta[rows, piece], g)
            if grad_alpha.size == 0:
                g_alpha[:] = 0
            load(grad_alpha[rows, piece], g_alpha)
            _load_above(alpha, initial, rows, piece, above)
            for k in range((end - piece.start) * LANES - n, -1, -n):
                p_i, b_i, g_i = stops[k : k + n], b[k : k + n], g_alpha[k : k + n]
                row.stop(p_i)
                row.arrive(above[k : k + n], p_i, q)
                np.multiply(q, p_i, here)
                row.share(u[k : k + n], f, mean, flow)
                row.spend(here, f, flow, b_i)
                row.spend_adjoint(g[k : k + n], b_i, f, mean, flow)
                g_i += mean
                row.arrive_adjoint(g_i, q, p_i, back)
                row.stop_adjoint(g_i, p_i)
            store(b, grad_energy[rows, piece])
            store(g_alpha, grad_logit[rows, piece])
        store(back, grad_initial[rows])


# --- expected attention ------------------------------------------------------------------------


@compiled
def lookback(inputs: Arrays, outputs: Arrays, first: int, last: int) -> None:
    """From alpha and energy to beta."""
    (alpha, energy), (beta,) = inputs, outputs
    a, u, b, f, top, total = _zeros(alpha.shape[1] * LANES, alpha)
    for tile in range(first, last):
        rows = rows_of(tile, len(alpha))
        load(alpha[rows], a)
        load(energy[rows], u)
        row.share(u, f, top, total)
        row.spend(a, f, total, b)
        store(b, beta[rows])


@compiled
def lookback_adjoint(inputs: Arrays, outputs: Arrays, first: int, last: int) -> None:
    """Row by row; f is computed again, which is cheaper than to keep it."""
    (grad, energy, beta), (grad_alpha, grad_energy) = inputs, outputs
    g, u, b, f, mean, flow = _zeros(beta.shape[1] * LANES, beta)
    for tile in range(first, last):
        rows = rows_of(tile, len(beta))
        load(grad[rows], g)
        load(energy[rows], u)
        load(beta[rows], b)
        row.share(u, f, mean, flow)
        row.spend_adjoint(g, b, f, mean, flow)
        store(mean, grad_alpha[rows])
        store(b, grad_energy[rows])


@compiled
def chunkwise(inputs: Arrays, outputs: Arrays, chunk: int, first: int, last: int) -> None:
    """From alpha and energy to beta."""
    (alpha, energy), (beta,) = inputs, outputs
    n = alpha.shape[1] * LANES
    a, u, b, top, total, _ = _zeros(n, alpha)
    for tile in range(first, last):
        rows = rows_of(tile, len(alpha))
        load(alpha[rows], a)
        load(energy[rows], u)
        row.window(u, top, total, chunk)
        a /= total
        b[:] = 0
        for d in range(0, chunk * LANES, LANES):
            end, mass = top[d:], a[d:]
            for k in range(n - d):
                b[k] += mass[k] * exp(u[k] - end[k])
        store(b, beta[rows])


@compiled
def chunkwise_adjoint(inputs: Arrays, outputs: Arrays, chunk: int, first: int, last: int) -> None:
    """dL/dalpha_k = c_k = sum_j w_kj grad_j, with w_kj the share of j in the chunk that ends at k.

    dL/du_j = sum_k alpha_k w_kj (grad_j - c_k).
    """
    (grad, alpha, energy), (grad_alpha, grad_energy) = inputs, outputs
    n = alpha.shape[1] * LANES
    a, u, g, top, total, mean = _zeros(n, alpha)
    out = np.zeros(n, alpha.dtype)
    for tile in range(first, last):
        rows = rows_of(tile, len(alpha))
        load(grad[rows], g)
        load(alpha[rows], a)
        load(energy[rows], u)
        row.window(u, top, total, chunk)
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
        store(mean, grad_alpha[rows])
        store(out, grad_energy[rows])
