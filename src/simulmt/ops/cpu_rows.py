"""The recurrences of expected alignment and attention, compiled for the CPU.

Each function works on a *tile*, the same row of 16 sentences (or heads) side by side, flat: element
`16 j + lane` is position `j` of one of them. A recurrence over positions is then one flat loop that
reads 16 elements back or ahead, and the compiler runs it on whole vectors if

* indices are plainly at least 0: it is `k + LANES` that is written and `k` that is read;
* a function has few arrays, or checking that they do not overlap costs more than it gains;
* forward and backward loops are functions apart;
* no argument is passed twice.
"""

from simulmt.ops.compiled import ONE, Array, compiled, exp, sigmoid
from simulmt.ops.cpu import LANES


@compiled
def first_row(tile: int, rows: int) -> int:
    """The first row of a tile. The last tile overlaps the one before, to the same values."""
    return max(0, min(tile * LANES, rows - LANES))


@compiled
def load(x: Array, row: int, at: int, size: int, tile: Array) -> None:
    """Fill lane r of the tile with x[row + r, at : at + size]."""
    rows = x[row : row + LANES, at : at + size]
    if len(rows) == LANES:  # the inner loop unrolls if its length is known
        for j in range(size):
            for r in range(LANES):
                tile[j * LANES + r] = rows[r, j]
    else:
        for r in range(len(rows)):
            for j in range(size):
                tile[j * LANES + r] = rows[r, j]


@compiled
def store(tile: Array, x: Array, row: int, at: int, size: int) -> None:
    """Invert `load`."""
    rows = x[row : row + LANES, at : at + size]
    if len(rows) == LANES:
        for j in range(size):
            for r in range(LANES):
                rows[r, j] = tile[j * LANES + r]
    else:
        for r in range(len(rows)):
            for j in range(size):
                rows[r, j] = tile[j * LANES + r]


@compiled
def stop(x: Array) -> None:
    """Replace logits e_j by p_j = sigmoid(e_j)."""
    for k in range(x.size):
        x[k] = sigmoid(x[k])


@compiled
def stop_adjoint(grad: Array, p: Array) -> None:
    """Turn `grad` from dL/dp into dL/de."""
    for k in range(p.size):
        grad[k] *= p[k] * (ONE - p[k])


@compiled
def arrive(above: Array, p: Array, q: Array) -> None:
    """q_j = alpha_j of the row above + (1 - p_j-1) q_j-1."""
    q[:LANES] = above[:LANES]
    for k in range(q.size - LANES):
        q[k + LANES] = above[k + LANES] + (ONE - p[k]) * q[k]


@compiled
def arrive_adjoint(grad: Array, q: Array, p: Array, back: Array) -> None:
    """Turn `grad` from dL/dalpha into dL/dp, and `back` from the next row's dL/dq into this row's.

    With g_j = grad_j + back_j of the row below: dL/dp_j = q_j (g_j - back_j+1) and
    back_j = p_j g_j + (1 - p_j) back_j+1.
    """
    n = q.size - LANES
    for k in range(n, q.size):
        g = grad[k] + back[k]
        grad[k] = q[k] * g
        back[k] = p[k] * g
    for k in range(n - 1, -1, -1):
        g = grad[k] + back[k]
        grad[k] = q[k] * (g - back[k + LANES])
        back[k] = p[k] * g + (ONE - p[k]) * back[k + LANES]


@compiled
def share(u: Array, f: Array, top: Array, total: Array) -> None:
    """f_j = exp(u_j - L_j), the share of u_j in the softmax over u_1..u_j.

    L_j is kept as the largest energy so far, `top`, and the sum of exp(u - top), `total`. One
    exponential does: of the new term, or of the old maximum.
    """
    top[:LANES] = u[:LANES]
    total[:LANES] = 1
    f[:LANES] = 1
    for k in range(u.size - LANES):
        rise = u[k + LANES] - top[k]
        e = exp(-abs(rise))
        term = ONE if rise > 0 else e
        total[k + LANES] = total[k] * (e if rise > 0 else ONE) + term
        f[k + LANES] = term / total[k + LANES]
        top[k + LANES] = u[k + LANES] if rise > 0 else top[k]


@compiled
def spend(alpha: Array, f: Array, flow: Array, beta: Array) -> None:
    """beta_j = f_j R_j with `flow` R_j = alpha_j + (1 - f_j+1) R_j+1.

    This is `reference.lookback`, for exp(L_j-1 - L_j) is 1 - f_j.
    """
    n = alpha.size - LANES
    for k in range(n, alpha.size):
        flow[k] = alpha[k]
        beta[k] = f[k] * alpha[k]
    for k in range(n - 1, -1, -1):
        flow[k] = alpha[k] + (ONE - f[k + LANES]) * flow[k + LANES]
        beta[k] = f[k] * flow[k]


@compiled
def spend_adjoint(grad: Array, beta: Array, f: Array, mean: Array, flow: Array) -> None:
    """Put dL/dalpha into `mean`, and turn `beta` into dL/du; `grad` is dL/dbeta. Linear in S.

    c_k = sum_{j<=k} softmax(u_1..u_k)_j grad_j is dL/dalpha_k, a running mean, and
    t_k = beta_k (1 - f_k) (grad_k - c_k-1) is what u_k moves between itself and the past;
    dL/du_j = t_j - f_j sum_{k>j} t_k exp(L_j - L_k-1).
    """
    _mean(grad, beta, f, mean)
    _return(beta, f, flow)


@compiled
def _mean(grad: Array, beta: Array, f: Array, mean: Array) -> None:
    mean[:LANES] = grad[:LANES]
    beta[:LANES] = 0
    for k in range(grad.size - LANES):
        left = ONE - f[k + LANES]
        beta[k + LANES] *= left * (grad[k + LANES] - mean[k])
        mean[k + LANES] = f[k + LANES] * grad[k + LANES] + left * mean[k]


@compiled
def _return(t: Array, f: Array, flow: Array) -> None:
    n = t.size - LANES
    flow[n:] = t[n:]
    for k in range(n - 1, -1, -1):
        own = t[k]
        t[k] = own - f[k] * flow[k + LANES]
        flow[k] = own + (ONE - f[k]) * flow[k + LANES]


@compiled
def window(u: Array, top: Array, total: Array, chunk: int) -> None:
    """The largest energy of the chunk that ends at each position, and its sum of exp(u - top).

    A chunk is short: its sums are flat loops, one for each distance `d` back from the chunk's end.
    """
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
