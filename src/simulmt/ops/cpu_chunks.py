"""Expected attention over chunks (MoChA), compiled for the CPU: forward and adjoint.

Tiles, threads and flat arrays are those of `cpu_kernels`. A chunk is short, so all of its sums are
flat loops over the tile, one for each distance `d` back from the chunk's end.
"""

# mypy: disable-error-code="no-untyped-call"
from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np

from simulmt.ops.compiled import compiled, exp
from simulmt.ops.tiles import LANES
from simulmt.ops.transposition import first_row, load, store

Array: TypeAlias = "np.ndarray[Any, Any]"
Shape: TypeAlias = tuple[int, int]


@compiled
def _window(u: Array, top: Array, total: Array, chunk: int) -> None:
    """The largest energy of the chunk that ends at each position, and its sum of exp(u - top)."""
    n = u.size
    top[:] = u
    total[:] = 0
    for d in range(LANES, chunk * LANES, LANES):
        end = top[d:]
        for k in range(n - d):
            end[k] = u[k] if u[k] > end[k] else end[k]
    for d in range(0, chunk * LANES, LANES):
        end, sums = top[d:], total[d:]
        for k in range(n - d):
            sums[k] += exp(u[k] - end[k])


@compiled
def chunkwise(
    alpha: Array, energy: Array, beta: Array, shape: Shape, chunk: int, first: int, last: int
) -> None:
    """alpha, energy, beta (N, S)."""
    N, S = shape
    lanes, n = min(LANES, N), S * LANES
    a, u, b = np.zeros(n, alpha.dtype), np.zeros(n, alpha.dtype), np.zeros(n, alpha.dtype)
    top, total = np.zeros(n, alpha.dtype), np.zeros(n, alpha.dtype)
    for tile in range(first, last):
        row = first_row(tile, N)
        load(alpha, row * S, S, lanes, a, S)
        load(energy, row * S, S, lanes, u, S)
        _window(u, top, total, chunk)
        b[:] = 0
        for k in range(n):
            a[k] /= total[k]
        for d in range(0, chunk * LANES, LANES):
            end, mass = top[d:], a[d:]
            for k in range(n - d):
                b[k] += mass[k] * exp(u[k] - end[k])
        store(b, beta, row * S, S, lanes, S)


@compiled
def chunkwise_adjoint(
    grad: Array,
    alpha: Array,
    energy: Array,
    grad_alpha: Array,
    grad_energy: Array,
    shape: Shape,
    chunk: int,
    first: int,
    last: int,
) -> None:
    """dL/dalpha_k = c_k = sum_j w_kj grad_j, with w_kj the share of j in the chunk that ends at k.

    dL/du_j = sum_k alpha_k w_kj (grad_j - c_k).
    """
    N, S = shape
    lanes, n = min(LANES, N), S * LANES
    a, u, g = np.zeros(n, alpha.dtype), np.zeros(n, alpha.dtype), np.zeros(n, alpha.dtype)
    top, total = np.zeros(n, alpha.dtype), np.zeros(n, alpha.dtype)
    mean, out = np.zeros(n, alpha.dtype), np.zeros(n, alpha.dtype)
    for tile in range(first, last):
        row = first_row(tile, N)
        load(alpha, row * S, S, lanes, a, S)
        load(energy, row * S, S, lanes, u, S)
        load(grad, row * S, S, lanes, g, S)
        _window(u, top, total, chunk)
        mean[:] = 0
        out[:] = 0
        for d in range(0, chunk * LANES, LANES):
            end, sums = top[d:], mean[d:]
            for k in range(n - d):
                sums[k] += g[k] * exp(u[k] - end[k])
        for k in range(n):
            mean[k] /= total[k]
            a[k] /= total[k]
        for d in range(0, chunk * LANES, LANES):
            end, mass, means = top[d:], a[d:], mean[d:]
            for k in range(n - d):
                out[k] += mass[k] * exp(u[k] - end[k]) * (g[k] - means[k])
        store(mean, grad_alpha, row * S, S, lanes, S)
        store(out, grad_energy, row * S, S, lanes, S)
