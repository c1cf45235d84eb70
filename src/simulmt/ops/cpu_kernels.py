"""Loops compiled for the CPU: expected alignment and expected attention, forward and adjoint.

How they are fast: a tile (`compiled_tiles`) holds the same row of 16 sentences (or heads) side by
side, flat, so that element `k = 16 j + lane` is position `j` of one of them. "The position before"
is then the element 16 places back, and every recurrence over positions becomes one flat loop

    q[k + 16] = q[k] * (1 - p[k]) + a[k + 16]

whose steps are independent within any 16 in a row: exactly what a compiler turns into vector
instructions. A kernel works through the tiles `first..last` and touches nothing else, holds no lock
and no state, so any number of them may run at a time.
"""

# mypy: disable-error-code="no-untyped-call"
from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np

from simulmt.ops.compiled import ONE, compiled, exp
from simulmt.ops.compiled_tiles import READ, WRITE, fetch, first_row, load, store
from simulmt.ops.tiles import LANES

Array: TypeAlias = "np.ndarray[Any, Any]"
# Loops from right to left index with unsigned numbers: a signed index that counts down might be
# negative for all that the compiler knows, and then it does not vectorise.
STEP = np.uintp(LANES)


# --- expected alignment ------------------------------------------------------------------------


@compiled
def alignment(p: Array, initial: Array, alpha: Array, first: int, last: int) -> None:
    """p, alpha (N, T, S), initial (N, S)."""
    N, T, S = p.shape
    lanes, n = min(LANES, N), S * LANES
    stop, stand = np.zeros(n, p.dtype), np.zeros(n, p.dtype)
    for tile in range(first, last):
        row = first_row(tile, N)
        load(initial.reshape(-1), row * S, S, lanes, stand, S)
        for t in range(T):
            at, stride = (row * T + t) * S, T * S
            load(p.reshape(-1), at, stride, lanes, stop, S)
            fetch(p.reshape(-1), at + S, stride, lanes, S, READ)
            fetch(alpha.reshape(-1), at, stride, lanes, S, WRITE)
            _arrive(stand, stop)
            for k in range(n):
                stand[k] *= stop[k]
            store(stand, alpha.reshape(-1), at, stride, lanes, S)


@compiled
def _arrive(stand: Array, stop: Array) -> None:
    """Turn the row above into q of this one."""
    for k in range(stand.size - LANES):
        stand[k + LANES] += stand[k] * (ONE - stop[k])


@compiled
def alignment_adjoint(
    grad: Array,
    p: Array,
    initial: Array,
    alpha: Array,
    grad_p: Array,
    grad_initial: Array,
    first: int,
    last: int,
) -> None:
    """The two loops backwards: `back` is dL/dq of the row below, then of this row."""
    N, T, S = p.shape
    lanes, n = min(LANES, N), S * LANES
    stop, g, q = np.zeros(n, p.dtype), np.zeros(n, p.dtype), np.zeros(n, p.dtype)
    back = np.zeros(n + LANES, p.dtype)  # zero past the end
    for tile in range(first, last):
        row = first_row(tile, N)
        back[:] = 0
        for t in range(T - 1, -1, -1):
            at, stride = (row * T + t) * S, T * S
            load(p.reshape(-1), at, stride, lanes, stop, S)
            load(grad.reshape(-1), at, stride, lanes, g, S)
            if t > 0:
                load(alpha.reshape(-1), at - S, stride, lanes, q, S)
                for x in (p, grad):
                    fetch(x.reshape(-1), at - S, stride, lanes, S, READ)
                fetch(alpha.reshape(-1), at - 2 * S, stride, lanes, S, READ)
            else:
                load(initial.reshape(-1), row * S, S, lanes, q, S)
            fetch(grad_p.reshape(-1), at, stride, lanes, S, WRITE)
            _arrive(q, stop)
            for right in range(n):
                i = np.uintp(n - 1 - right)
                stood, passed = g[i] + back[i], back[i + STEP]
                back[i] = stop[i] * stood + (ONE - stop[i]) * passed
                g[i] = q[i] * (stood - passed)
            store(g, grad_p.reshape(-1), at, stride, lanes, S)
        store(back, grad_initial.reshape(-1), row * S, S, lanes, S)


# --- expected attention ------------------------------------------------------------------------


@compiled
def lookback(
    alpha: Array, energy: Array, beta: Array, fraction: Array, first: int, last: int
) -> None:
    """alpha, energy, beta (N, S); `fraction` keeps f in tiles for the adjoint.

    f_j = exp(u_j - L_j) is the share of u_j in the softmax over u_1..u_j, and exp(L_j-1 - L_j) is
    1 - f_j: beta is what stays when alpha flows from right to left and f_j of it stops at j.
    L is kept as (top, total), the largest energy so far and the sum of exp(u - top).
    """
    N, S = alpha.shape
    lanes, n = min(LANES, N), S * LANES
    a, u, top = np.zeros(n, alpha.dtype), np.zeros(n, alpha.dtype), np.zeros(n, alpha.dtype)
    total, flow = np.zeros(n + LANES, alpha.dtype), np.zeros(n + LANES, alpha.dtype)
    for tile in range(first, last):
        row, f = first_row(tile, N), fraction[tile]
        load(alpha.reshape(-1), row * S, S, lanes, a, S)
        load(energy.reshape(-1), row * S, S, lanes, u, S)
        for x in (alpha, energy):
            fetch(x.reshape(-1), (row + LANES) * S, S, lanes, S, READ)
        fetch(beta.reshape(-1), row * S, S, lanes, S, WRITE)
        top[:LANES] = u[:LANES]
        for k in range(n - LANES):
            top[k + LANES] = u[k] if u[k] > top[k] else top[k]
        for k in range(n):
            rise = u[k] - top[k]
            e = exp(-abs(rise))  # the one exponential: of the new term, or of the old maximum
            term, rescale = (ONE, e) if rise > 0 else (e, ONE)
            total[k + LANES] = total[k] * rescale + term
            f[k] = term / total[k + LANES]
        flow[n - LANES : n] = a[n - LANES :]
        for right in range(LANES, n):
            i = np.uintp(n - 1 - right)
            flow[i] = a[i] + (ONE - f[i + STEP]) * flow[i + STEP]
        for k in range(n):
            a[k] = f[k] * flow[k]
        store(a, beta.reshape(-1), row * S, S, lanes, S)


@compiled
def lookback_adjoint(
    grad: Array,
    beta: Array,
    fraction: Array,
    grad_alpha: Array,
    grad_energy: Array,
    first: int,
    last: int,
) -> None:
    """Linear in S: a running mean c_k of the gradient, and one flow from right to left.

    c_k = sum_{j<=k} softmax(u_1..u_k)_j grad_j is dL/dalpha_k, and
    t_k = beta_k (1 - f_k) (grad_k - c_k-1) what u_k moves between itself and everything before;
    dL/du_j = t_j - f_j sum_{k>j} t_k exp(L_j - L_k-1).
    """
    N, S = beta.shape
    lanes, n = min(LANES, N), S * LANES
    b, g = np.zeros(n, beta.dtype), np.zeros(n, beta.dtype)
    mean, flow = np.zeros(n + LANES, beta.dtype), np.zeros(n, beta.dtype)
    for tile in range(first, last):
        row, f = first_row(tile, N), fraction[tile]
        load(beta.reshape(-1), row * S, S, lanes, b, S)
        load(grad.reshape(-1), row * S, S, lanes, g, S)
        for x in (beta, grad):
            fetch(x.reshape(-1), (row + LANES) * S, S, lanes, S, READ)
        for x in (grad_alpha, grad_energy):
            fetch(x.reshape(-1), row * S, S, lanes, S, WRITE)
        for k in range(n):
            rest = ONE - f[k]
            b[k] *= rest * (g[k] - mean[k])
            mean[k + LANES] = f[k] * g[k] + rest * mean[k]
        for right in range(LANES, n):
            i = np.uintp(n - 1 - right)
            flow[i] = b[i + STEP] + (ONE - f[i + STEP]) * flow[i + STEP]
        for k in range(n):
            b[k] -= f[k] * flow[k]
        store(mean[LANES:], grad_alpha.reshape(-1), row * S, S, lanes, S)
        store(b, grad_energy.reshape(-1), row * S, S, lanes, S)


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
def chunkwise(alpha: Array, energy: Array, beta: Array, chunk: int, first: int, last: int) -> None:
    """alpha, energy, beta (N, S); `d` is how far back from the end of its chunk a position is."""
    N, S = alpha.shape
    lanes, n = min(LANES, N), S * LANES
    a, u, b = np.zeros(n, alpha.dtype), np.zeros(n, alpha.dtype), np.zeros(n, alpha.dtype)
    top, total = np.zeros(n, alpha.dtype), np.zeros(n, alpha.dtype)
    for tile in range(first, last):
        row = first_row(tile, N)
        load(alpha.reshape(-1), row * S, S, lanes, a, S)
        load(energy.reshape(-1), row * S, S, lanes, u, S)
        _window(u, top, total, chunk)
        b[:] = 0
        for k in range(n):
            a[k] /= total[k]
        for d in range(0, chunk * LANES, LANES):
            end, mass = top[d:], a[d:]
            for k in range(n - d):
                b[k] += mass[k] * exp(u[k] - end[k])
        store(b, beta.reshape(-1), row * S, S, lanes, S)


@compiled
def chunkwise_adjoint(
    grad: Array,
    alpha: Array,
    energy: Array,
    grad_alpha: Array,
    grad_energy: Array,
    chunk: int,
    first: int,
    last: int,
) -> None:
    """With w_kj the share of j in the chunk that ends at k: dL/dalpha_k = c_k = sum_j w_kj grad_j.

    And dL/du_j = sum_k alpha_k w_kj (grad_j - c_k).
    """
    N, S = alpha.shape
    lanes, n = min(LANES, N), S * LANES
    a, u, g = np.zeros(n, alpha.dtype), np.zeros(n, alpha.dtype), np.zeros(n, alpha.dtype)
    top, total = np.zeros(n, alpha.dtype), np.zeros(n, alpha.dtype)
    mean, out = np.zeros(n, alpha.dtype), np.zeros(n, alpha.dtype)
    for tile in range(first, last):
        row = first_row(tile, N)
        load(alpha.reshape(-1), row * S, S, lanes, a, S)
        load(energy.reshape(-1), row * S, S, lanes, u, S)
        load(grad.reshape(-1), row * S, S, lanes, g, S)
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
        store(mean, grad_alpha.reshape(-1), row * S, S, lanes, S)
        store(out, grad_energy.reshape(-1), row * S, S, lanes, S)
