"""Loops compiled for the CPU: expected alignment and expected attention, forward and adjoint.

How they are fast: a *tile* holds the same row of 16 sentences (or heads) side by side, flat, so
that element `k = 16 j + lane` is position `j` of one of them. "The position before" is then the
element 16 places back, and every recurrence over positions becomes one flat loop

    q[k + 16] = q[k] * (1 - p[k]) + a[k + 16]

whose steps are independent within any 16 in a row: exactly what a compiler turns into vector
instructions. Reading and writing tiles means transposing 16 x 16 blocks (`_transpose`).

A kernel works through the tiles `first..last` and touches nothing else, holds no lock and no
state, so any number of them may run at a time. The last tile of a tensor is moved back to end at
the last row; the rows that two tiles then share are computed twice, to the same values.
"""

# mypy: disable-error-code="no-untyped-call"
from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
from llvmlite import ir  # type: ignore[import-untyped]
from numba.core import cgutils, errors, types
from numba.extending import intrinsic

from simulmt.ops.compiled import ONE, compiled, exp

Array: TypeAlias = "np.ndarray[Any, Any]"
LANES = 16
READ, WRITE = 0, 1
# Loops from right to left index with unsigned numbers: a signed index that counts down might be
# negative for all that the compiler knows, and then it does not vectorise.
STEP = np.uintp(LANES)


# --- reading and writing tiles -----------------------------------------------------------------


def _transpose_block(
    typing: Any, src: Any, at: Any, step: Any, dst: Any, to: Any, jump: Any
) -> Any:
    """dst[to + jump * c + r] = src[at + step * r + c] for 16 x 16 elements, in registers."""

    def address(builder: Any, array: Any, start: Any, stride: Any, row: int, vector: Any) -> Any:
        offset = builder.add(start, builder.mul(stride, ir.Constant(start.type, row)))
        return builder.bitcast(builder.gep(array, [offset]), vector.as_pointer())

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        source = cgutils.create_struct_proxy(src)(context, builder, value=args[0]).data
        target = cgutils.create_struct_proxy(dst)(context, builder, value=args[3]).data
        element = context.get_data_type(src.dtype)
        vector, align = ir.VectorType(element, LANES), context.get_abi_sizeof(element)
        rows = []
        for r in range(LANES):
            rows.append(builder.load(address(builder, source, args[1], args[2], r, vector)))
            rows[-1].align = align
        mask_type = ir.VectorType(ir.IntType(32), LANES)
        width = 1
        while width < LANES:  # swap the off-diagonal squares: 1 x 1, then 2 x 2, 4 x 4, 8 x 8
            low = [c if not c & width else LANES + c - width for c in range(LANES)]
            high = [c + width if not c & width else LANES + c for c in range(LANES)]
            for r in (r for r in range(LANES) if not r & width):
                pair = rows[r], rows[r + width]
                rows[r] = builder.shuffle_vector(*pair, ir.Constant(mask_type, low))
                rows[r + width] = builder.shuffle_vector(*pair, ir.Constant(mask_type, high))
            width *= 2
        for r in range(LANES):
            store = builder.store(rows[r], address(builder, target, args[4], args[5], r, vector))
            store.align = align
        return context.get_dummy_value()

    index = types.intp
    return types.void(src, index, index, dst, index, index), codegen


_transpose: Any = intrinsic(_transpose_block)


@compiled
def _load(x: Array, at: int, stride: int, lanes: int, tile: Array, S: int) -> None:
    """Row r of the tile is x[at + r * stride :][:S]."""
    if lanes == LANES and S >= LANES:
        for j in range(0, S - LANES, LANES):
            _transpose(x, at + j, stride, tile, j * LANES, LANES)
        last = S - LANES  # overlaps the block before it when 16 does not divide S
        _transpose(x, at + last, stride, tile, last * LANES, LANES)
    else:
        for r in range(lanes):
            for j in range(S):
                tile[j * LANES + r] = x[at + r * stride + j]


@compiled
def _store(tile: Array, x: Array, at: int, stride: int, lanes: int, S: int) -> None:
    """The inverse of `_load`."""
    if lanes == LANES and S >= LANES:
        for j in range(0, S - LANES, LANES):
            _transpose(tile, j * LANES, LANES, x, at + j, stride)
        last = S - LANES
        _transpose(tile, last * LANES, LANES, x, at + last, stride)
    else:
        for r in range(lanes):
            for j in range(S):
                x[at + r * stride + j] = tile[j * LANES + r]


def _prefetch_line(typing: Any, array: Any, at: Any, intent: Any) -> Any:
    """Have the cache line of array[at] brought near, past the end too; nothing waits for it."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        data = cgutils.create_struct_proxy(array)(context, builder, value=args[0]).data
        pointer, word = ir.IntType(8).as_pointer(), ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [pointer, word, word, word])
        prefetch = builder.module.declare_intrinsic("llvm.prefetch", [pointer], kind)
        address = builder.bitcast(builder.gep(data, [args[1]]), pointer)
        nearest, of_data = ir.Constant(word, 3), ir.Constant(word, 1)
        builder.call(prefetch, [address, ir.Constant(word, intent.literal_value), nearest, of_data])
        return context.get_dummy_value()

    if not isinstance(intent, types.IntegerLiteral):
        raise errors.RequireLiteralValue("intent")
    return types.void(array, types.intp, intent), codegen


_prefetch: Any = intrinsic(_prefetch_line)


@compiled
def _fetch(x: Array, at: int, stride: int, lanes: int, S: int, intent: int) -> None:
    """Have what a tile is loaded from next brought near, or what it will be stored to.

    Rows are short and far apart, too much so for the processor to see where they lead.
    """
    for r in range(lanes):
        for j in range(0, S + LANES, LANES):  # its ends may lie in two lines
            if intent == READ:
                _prefetch(x, at + r * stride + j, READ)
            else:
                _prefetch(x, at + r * stride + j, WRITE)


@compiled
def _first_row(tile: int, rows: int) -> int:
    return max(0, min(tile * LANES, rows - LANES))


# --- expected alignment ------------------------------------------------------------------------


@compiled
def alignment(p: Array, initial: Array, alpha: Array, first: int, last: int) -> None:
    """p, alpha (N, T, S), initial (N, S)."""
    N, T, S = p.shape
    lanes, n = min(LANES, N), S * LANES
    stop, stand = np.zeros(n, p.dtype), np.zeros(n, p.dtype)
    for tile in range(first, last):
        row = _first_row(tile, N)
        _load(initial.reshape(-1), row * S, S, lanes, stand, S)
        for t in range(T):
            at, stride = (row * T + t) * S, T * S
            _load(p.reshape(-1), at, stride, lanes, stop, S)
            _fetch(p.reshape(-1), at + S, stride, lanes, S, READ)
            _fetch(alpha.reshape(-1), at, stride, lanes, S, WRITE)
            _arrive(stand, stop)
            for k in range(n):
                stand[k] *= stop[k]
            _store(stand, alpha.reshape(-1), at, stride, lanes, S)


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
        row = _first_row(tile, N)
        back[:] = 0
        for t in range(T - 1, -1, -1):
            at, stride = (row * T + t) * S, T * S
            _load(p.reshape(-1), at, stride, lanes, stop, S)
            _load(grad.reshape(-1), at, stride, lanes, g, S)
            if t > 0:
                _load(alpha.reshape(-1), at - S, stride, lanes, q, S)
                for x in (p, grad):
                    _fetch(x.reshape(-1), at - S, stride, lanes, S, READ)
                _fetch(alpha.reshape(-1), at - 2 * S, stride, lanes, S, READ)
            else:
                _load(initial.reshape(-1), row * S, S, lanes, q, S)
            _fetch(grad_p.reshape(-1), at, stride, lanes, S, WRITE)
            _arrive(q, stop)
            for right in range(n):
                i = np.uintp(n - 1 - right)
                stood, passed = g[i] + back[i], back[i + STEP]
                back[i] = stop[i] * stood + (ONE - stop[i]) * passed
                g[i] = q[i] * (stood - passed)
            _store(g, grad_p.reshape(-1), at, stride, lanes, S)
        _store(back, grad_initial.reshape(-1), row * S, S, lanes, S)


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
        row, f = _first_row(tile, N), fraction[tile]
        _load(alpha.reshape(-1), row * S, S, lanes, a, S)
        _load(energy.reshape(-1), row * S, S, lanes, u, S)
        for x in (alpha, energy):
            _fetch(x.reshape(-1), (row + LANES) * S, S, lanes, S, READ)
        _fetch(beta.reshape(-1), row * S, S, lanes, S, WRITE)
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
        _store(a, beta.reshape(-1), row * S, S, lanes, S)


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
        row, f = _first_row(tile, N), fraction[tile]
        _load(beta.reshape(-1), row * S, S, lanes, b, S)
        _load(grad.reshape(-1), row * S, S, lanes, g, S)
        for x in (beta, grad):
            _fetch(x.reshape(-1), (row + LANES) * S, S, lanes, S, READ)
        for x in (grad_alpha, grad_energy):
            _fetch(x.reshape(-1), row * S, S, lanes, S, WRITE)
        for k in range(n):
            rest = ONE - f[k]
            b[k] *= rest * (g[k] - mean[k])
            mean[k + LANES] = f[k] * g[k] + rest * mean[k]
        for right in range(LANES, n):
            i = np.uintp(n - 1 - right)
            flow[i] = b[i + STEP] + (ONE - f[i + STEP]) * flow[i + STEP]
        for k in range(n):
            b[k] -= f[k] * flow[k]
        _store(mean[LANES:], grad_alpha.reshape(-1), row * S, S, lanes, S)
        _store(b, grad_energy.reshape(-1), row * S, S, lanes, S)


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
        row = _first_row(tile, N)
        _load(alpha.reshape(-1), row * S, S, lanes, a, S)
        _load(energy.reshape(-1), row * S, S, lanes, u, S)
        _window(u, top, total, chunk)
        b[:] = 0
        for k in range(n):
            a[k] /= total[k]
        for d in range(0, chunk * LANES, LANES):
            end, mass = top[d:], a[d:]
            for k in range(n - d):
                b[k] += mass[k] * exp(u[k] - end[k])
        _store(b, beta.reshape(-1), row * S, S, lanes, S)


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
        row = _first_row(tile, N)
        _load(alpha.reshape(-1), row * S, S, lanes, a, S)
        _load(energy.reshape(-1), row * S, S, lanes, u, S)
        _load(grad.reshape(-1), row * S, S, lanes, g, S)
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
        _store(mean, grad_alpha.reshape(-1), row * S, S, lanes, S)
        _store(out, grad_energy.reshape(-1), row * S, S, lanes, S)
