"""Expected alignment and attention over tiles of 16 sentences, compiled for the CPU.

What follows a row in memory is the next row of the same sentence. Kernels therefore read and write
several rows at a time (`transposition`), in pieces long enough for the processor to prefetch, and
compute them row by row (`cpu_rows`). A kernel works through the tiles `first..last`, writes nothing
outside them and holds neither lock nor state, so any number of kernels may run at a time.

All arrays are flat, and their shape (N, T, S) or (N, S) follows them.
"""

# mypy: disable-error-code="no-untyped-call"
from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np

from simulmt.ops.compiled import compiled
from simulmt.ops.cpu_rows import (
    arrive,
    arrive_adjoint,
    share,
    spend,
    spend_adjoint,
    stop,
    stop_adjoint,
)
from simulmt.ops.tiles import LANES
from simulmt.ops.transposition import first_row, load, load_above, store

Array: TypeAlias = "np.ndarray[Any, Any]"
Shape: TypeAlias = tuple[int, int, int]
BLOCK = 1024  # positions read at a time: of all 16 sentences, 64 KiB in float32


@compiled
def _pieces(shape: Shape) -> tuple[int, int, int, int]:
    """The lanes in use, a row's elements in a tile, a sentence's in memory, and rows at a time."""
    N, T, S = shape
    return min(LANES, N), S * LANES, T * S, max(1, min(T, BLOCK // S))


@compiled
def _buffers(size: int, like: Array) -> tuple[Array, Array, Array, Array]:
    """Four arrays of zeros in the dtype of `like`."""
    a, b = np.zeros(size, like.dtype), np.zeros(size, like.dtype)
    return a, b, np.zeros(size, like.dtype), np.zeros(size, like.dtype)


# --- expected alignment ------------------------------------------------------------------------


@compiled
def alignment(p: Array, initial: Array, alpha: Array, shape: Shape, first: int, last: int) -> None:
    """p, alpha (N, T, S) and initial (N, S)."""
    N, T, S = shape
    lanes, n, stride, most = _pieces(shape)
    stops, stands = np.zeros(most * n, p.dtype), np.zeros((most + 1) * n, p.dtype)
    for tile in range(first, last):
        row = first_row(tile, N)
        load(initial, row * S, S, lanes, stands, S)
        for t in range(0, T, most):
            rows, at = min(most, T - t), row * stride + t * S
            load(p, at, stride, lanes, stops, rows * S)
            for k in range(0, rows * n, n):
                here, p_i = stands[k + n : k + 2 * n], stops[k : k + n]
                arrive(stands[k : k + n], p_i, here)
                here *= p_i
            store(stands[n:], alpha, at, stride, lanes, rows * S)
            stands[:n] = stands[rows * n : (rows + 1) * n]


@compiled
def alignment_adjoint(
    grad: Array,
    p: Array,
    initial: Array,
    alpha: Array,
    grad_p: Array,
    grad_initial: Array,
    shape: Shape,
    first: int,
    last: int,
) -> None:
    """From the last row to the first."""
    N, T, S = shape
    lanes, n, stride, most = _pieces(shape)
    stops, g, above, _ = _buffers(most * n, p)
    q, back = np.zeros(n, p.dtype), np.zeros(n, p.dtype)
    for tile in range(first, last):
        row = first_row(tile, N)
        back[:] = 0
        for end in range(T, 0, -most):
            t = max(0, end - most)
            rows, at = end - t, row * stride + t * S
            load(p, at, stride, lanes, stops, rows * S)
            load(grad, at, stride, lanes, g, rows * S)
            load_above(alpha, initial, row, t, shape, above, rows)
            for k in range((rows - 1) * n, -1, -n):
                arrive(above[k : k + n], stops[k : k + n], q)
                arrive_adjoint(g[k : k + n], q, stops[k : k + n], back)
            store(g, grad_p, at, stride, lanes, rows * S)
        store(back, grad_initial, row * S, S, lanes, S)


# --- expected attention ------------------------------------------------------------------------


@compiled
def lookback(
    alpha: Array, energy: Array, beta: Array, shape: tuple[int, int], first: int, last: int
) -> None:
    """alpha, energy, beta (N, S)."""
    N, S = shape
    lanes, n = min(LANES, N), S * LANES
    a, u, b, _ = _buffers(n, alpha)
    f, top, total, _ = _buffers(n, alpha)
    for tile in range(first, last):
        at = first_row(tile, N) * S
        load(alpha, at, S, lanes, a, S)
        load(energy, at, S, lanes, u, S)
        share(u, f, top, total)
        spend(a, f, total, b)
        store(b, beta, at, S, lanes, S)


@compiled
def lookback_adjoint(
    grad: Array,
    energy: Array,
    beta: Array,
    grad_alpha: Array,
    grad_energy: Array,
    shape: tuple[int, int],
    first: int,
    last: int,
) -> None:
    """Row by row; f is computed again, which is cheaper than to keep it."""
    N, S = shape
    lanes, n = min(LANES, N), S * LANES
    u, b, g, f = _buffers(n, beta)
    mean, flow = np.zeros(n, beta.dtype), np.zeros(n, beta.dtype)
    for tile in range(first, last):
        at = first_row(tile, N) * S
        load(energy, at, S, lanes, u, S)
        load(beta, at, S, lanes, b, S)
        load(grad, at, S, lanes, g, S)
        share(u, f, mean, flow)
        spend_adjoint(g, b, f, mean, flow)
        store(mean, grad_alpha, at, S, lanes, S)
        store(b, grad_energy, at, S, lanes, S)


# --- from logits to both, in one pass ----------------------------------------------------------


@compiled
def alignment_lookback(
    logit: Array,
    energy: Array,
    initial: Array,
    alpha: Array,
    beta: Array,
    shape: Shape,
    first: int,
    last: int,
) -> None:
    """`alignment` with p = sigmoid(logit), then `lookback`."""
    N, T, S = shape
    lanes, n, stride, most = _pieces(shape)
    stops, u, b, stands = _buffers((most + 1) * n, logit)
    f, top, total, _ = _buffers(n, logit)
    for tile in range(first, last):
        row = first_row(tile, N)
        load(initial, row * S, S, lanes, stands, S)
        for t in range(0, T, most):
            rows, at = min(most, T - t), row * stride + t * S
            load(logit, at, stride, lanes, stops, rows * S)
            load(energy, at, stride, lanes, u, rows * S)
            for k in range(0, rows * n, n):
                here, p_i = stands[k + n : k + 2 * n], stops[k : k + n]
                stop(p_i)
                arrive(stands[k : k + n], p_i, here)
                here *= p_i
                share(u[k : k + n], f, top, total)
                spend(here, f, total, b[k : k + n])
            store(stands[n:], alpha, at, stride, lanes, rows * S)
            store(b, beta, at, stride, lanes, rows * S)
            stands[:n] = stands[rows * n : (rows + 1) * n]


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
    shape: Shape,
    first: int,
    last: int,
) -> None:
    """Computes p and beta again; an empty gradient stands for zeros."""
    N, T, S = shape
    lanes, n, stride, most = _pieces(shape)
    stops, u, b, stands = _buffers((most + 1) * n, logit)
    g, g_alpha = np.zeros(most * n, logit.dtype), np.zeros(most * n, logit.dtype)
    f, mean, flow, q = _buffers(n, logit)
    back = np.zeros(n, logit.dtype)
    for tile in range(first, last):
        row = first_row(tile, N)
        back[:] = 0
        if T > 0:
            load(alpha, (row + 1) * stride - S, stride, lanes, stands, S)
        for end in range(T, 0, -most):
            t = max(0, end - most)
            rows, at = end - t, row * stride + t * S
            load(logit, at, stride, lanes, stops, rows * S)
            load(energy, at, stride, lanes, u, rows * S)
            if grad_beta.size > 0:
                load(grad_beta, at, stride, lanes, g, rows * S)
            if grad_alpha.size > 0:
                load(grad_alpha, at, stride, lanes, g_alpha, rows * S)
            else:
                g_alpha[:] = 0
            stands[rows * n : (rows + 1) * n] = stands[:n]
            load_above(alpha, initial, row, t, shape, stands, rows)
            for k in range((rows - 1) * n, -1, -n):
                p_i, b_i, g_i = stops[k : k + n], b[k : k + n], g_alpha[k : k + n]
                share(u[k : k + n], f, mean, flow)
                spend(stands[k + n : k + 2 * n], f, flow, b_i)
                spend_adjoint(g[k : k + n], b_i, f, mean, flow)
                g_i += mean
                stop(p_i)
                arrive(stands[k : k + n], p_i, q)
                arrive_adjoint(g_i, q, p_i, back)
                stop_adjoint(g_i, p_i)
            store(b, grad_energy, at, stride, lanes, rows * S)
            store(g_alpha, grad_logit, at, stride, lanes, rows * S)
        store(back, grad_initial, row * S, S, lanes, S)
