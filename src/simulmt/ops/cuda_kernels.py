"""Kernels for the GPU, in Triton: expected alignment and expected attention, forward and adjoint.

A program holds ROWS rows of S positions, in a block of BLOCK >= S. Every recurrence over
positions is linear, x_j = a_j x_j-1 + b_j, and so a scan of the associative (a, b) -> a x + b:
log2 S steps instead of S. The loop over target steps stays a loop, its loads STAGES steps ahead.

A block cannot be moved by one position in registers. A recurrence therefore loads its neighbours'
values again, from one position beside (a cache has them), or derives them from their equations.

Arithmetic is in the dtype of the tensors, float32 or float64. Positions past S carry p = 0 or
alpha = 0: no mass, no gradient. Bytes are counted in `simulmt.ops.cuda`.
"""

# mypy: disable-error-code="no-untyped-call,no-untyped-def,untyped-decorator"
# Triton reads the annotations of a kernel and allows only constexpr.
import triton
import triton.language as tl


@triton.jit
def _then(a, b, c, d):
    """The map x -> a x + b followed by x -> c x + d, as its factor and term."""
    return a * c, c * b + d


@triton.jit
def _larger(a, b):
    return tl.maximum(a, b)


@triton.jit
def _recurrence(factor, term, REVERSE: tl.constexpr):
    """x_j = factor_j x_j-1 + term_j along the rows, from x = 0; with x_j+1 if REVERSE."""
    _, x = tl.associative_scan((factor, term), 1, _then, reverse=REVERSE)
    return x


@triton.jit
def _block(N, S, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    """This program's rows (ROWS, 1), positions (1, BLOCK), and which of them exist."""
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)[:, None]
    j = tl.arange(0, BLOCK)[None, :]
    return row, j, (row < N) & (j < S)


# --- expected alignment ------------------------------------------------------------------------


@triton.jit(do_not_specialize=["N", "T"])
def alignment(
    p, initial, alpha, N, T, S, ROWS: tl.constexpr, BLOCK: tl.constexpr, STAGES: tl.constexpr
):
    """p, alpha (N, T, S), initial (N, S): q_ij = (1 - p_i,j-1) q_i,j-1 + alpha_i-1,j."""
    row, j, inside = _block(N, S, ROWS, BLOCK)
    stand = tl.load(initial + row * S + j, mask=inside, other=0.0)
    for t in tl.range(0, T, num_stages=STAGES):
        at = (row * T + t) * S + j
        stop = tl.load(p + at, mask=inside, other=0.0)
        stop_before = tl.load(p + at - 1, mask=inside & (j > 0), other=0.0)
        stand = stop * _recurrence(1 - stop_before, stand, False)
        tl.store(alpha + at, stand, mask=inside)


@triton.jit(do_not_specialize=["N", "T"])
def alignment_adjoint(
    grad,
    p,
    initial,
    alpha,
    grad_p,
    grad_initial,
    N,
    T,
    S,
    ROWS: tl.constexpr,
    BLOCK: tl.constexpr,
    STAGES: tl.constexpr,
):
    """The loop backwards; q is computed again, from the alpha of the row above.

    `back`_j is dL/dq_j of the row below, then of this row, and `back_after`_j is `back`_j+1:

        back_j = p_j g_j + (1 - p_j) back_j+1     with g = grad + back of the row below
        dL/dp_j = q_j (g_j - back_j+1)
    """
    row, j, inside = _block(N, S, ROWS, BLOCK)
    inside_after = inside & (j + 1 < S)
    first = tl.load(initial + row * S + j, mask=inside, other=0.0)
    back = tl.zeros_like(first)
    back_after = tl.zeros_like(first)
    for below in tl.range(0, T, num_stages=STAGES):
        t = T - 1 - below
        at = (row * T + t) * S + j
        stop = tl.load(p + at, mask=inside, other=0.0)
        stop_before = tl.load(p + at - 1, mask=inside & (j > 0), other=0.0)
        stop_after = tl.load(p + at + 1, mask=inside_after, other=0.0)
        g = tl.load(grad + at, mask=inside, other=0.0) + back
        g_after = tl.load(grad + at + 1, mask=inside_after, other=0.0) + back_after
        below_a_row = inside & (at >= (row * T + 1) * S)
        above = tl.load(alpha + at - S, mask=below_a_row, other=0.0)
        above = tl.where(below_a_row, above, first)
        q = _recurrence(1 - stop_before, above, False)
        back_after = _recurrence(1 - stop_after, stop_after * g_after, True)
        back = stop * g + (1 - stop) * back_after
        tl.store(grad_p + at, q * (g - back_after), mask=inside)
    tl.store(grad_initial + row * S + j, back, mask=inside)


# --- expected attention, infinite lookback -----------------------------------------------------


@triton.jit
def _shares(energy, at, j, inside, S):
    """f_j = exp(u_j - L_j), the share of u_j in the softmax over u_1..u_j; and 1 - f_j+1.

    L is kept as the largest energy so far, top, and the sum of exp(u - top), total. To bring a new
    term and the old total to the new top takes one exponential, for one of the two factors is 1.
    """
    u = tl.load(energy + at, mask=inside, other=0.0)
    u_before = tl.load(energy + at - 1, mask=inside & (j > 0), other=float("-inf"))
    u_after = tl.load(energy + at + 1, mask=inside & (j + 1 < S), other=float("-inf"))
    top_before = tl.associative_scan(u_before, 1, _larger)
    e = tl.exp(-tl.abs(u - top_before))
    term = tl.where(u > top_before, 1.0, e)
    total = _recurrence(tl.where(u > top_before, e, 1.0), term, False)
    top = tl.maximum(u, top_before)
    e_after = tl.exp(-tl.abs(u_after - top))
    rest = total * tl.where(u_after > top, e_after, 1.0)
    return term / total, rest / (rest + tl.where(u_after > top, 1.0, e_after))


@triton.jit(do_not_specialize=["N"])
def lookback(alpha, energy, beta, N, S, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    """alpha, energy, beta (N, S): alpha flows from right to left, and f_j of it stops at j."""
    row, j, inside = _block(N, S, ROWS, BLOCK)
    at = row * S + j
    share, rest_after = _shares(energy, at, j, inside, S)
    mass = tl.load(alpha + at, mask=inside, other=0.0)
    tl.store(beta + at, share * _recurrence(rest_after, mass, True), mask=inside)


@triton.jit(do_not_specialize=["N"])
def lookback_adjoint(
    grad, energy, beta, grad_alpha, grad_energy, N, S, ROWS: tl.constexpr, BLOCK: tl.constexpr
):
    """Linear in S: a running mean c_k of the gradient, and one flow from right to left.

    c_k = sum_{j<=k} softmax(u_1..u_k)_j grad_j = f_k grad_k + (1 - f_k) c_k-1 is dL/dalpha_k.
    t_k = beta_k (1 - f_k) (grad_k - c_k-1) = beta_k (grad_k - c_k) is what u_k moves between itself
    and the past; dL/du_j = t_j - f_j flow_j with flow_j = t_j+1 + (1 - f_j+1) flow_j+1.
    """
    row, j, inside = _block(N, S, ROWS, BLOCK)
    inside_after = inside & (j + 1 < S)
    at = row * S + j
    share, rest_after = _shares(energy, at, j, inside, S)
    g = tl.load(grad + at, mask=inside, other=0.0)
    g_after = tl.load(grad + at + 1, mask=inside_after, other=0.0)
    b = tl.load(beta + at, mask=inside, other=0.0)
    b_after = tl.load(beta + at + 1, mask=inside_after, other=0.0)
    mean = _recurrence(1 - share, share * g, False)
    tl.store(grad_alpha + at, mean, mask=inside)
    flow = _recurrence(rest_after, b_after * rest_after * (g_after - mean), True)
    tl.store(grad_energy + at, b * (g - mean) - share * flow, mask=inside)


# --- expected attention, chunks ----------------------------------------------------------------


@triton.jit
def _window(energy, at, j, inside, chunk):
    """The largest energy of the chunk that ends at each position, and its sum of exp(u - top)."""
    own = tl.load(energy + at, mask=inside, other=0.0)
    top = own
    for back in range(1, chunk):
        u = tl.load(energy + at - back, mask=inside & (j >= back), other=float("-inf"))
        top = tl.maximum(top, u)
    total = tl.exp(own - top)
    for back in range(1, chunk):
        u = tl.load(energy + at - back, mask=inside & (j >= back), other=float("-inf"))
        total += tl.exp(u - top)
    return top, total


@triton.jit(do_not_specialize=["N", "chunk"])
def chunk_tops(alpha, energy, top, spent, N, S, chunk, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    """All (N, S). Keeps `top`_k of the chunk that ends at k, and `spent`_k = alpha_k / total_k."""
    row, j, inside = _block(N, S, ROWS, BLOCK)
    at = row * S + j
    largest, total = _window(energy, at, j, inside, chunk)
    mass = tl.load(alpha + at, mask=inside, other=0.0)
    tl.store(top + at, largest, mask=inside)
    tl.store(spent + at, mass / total, mask=inside)


@triton.jit(do_not_specialize=["N", "chunk"])
def chunkwise(energy, top, spent, beta, N, S, chunk, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    """All (N, S): beta_j = sum over the chunks that hold j of spent_k exp(u_j - top_k)."""
    row, j, inside = _block(N, S, ROWS, BLOCK)
    at = row * S + j
    u = tl.load(energy + at, mask=inside, other=0.0)
    total = tl.zeros_like(u)
    for ahead in range(chunk):
        there = inside & (j + ahead < S)
        largest = tl.load(top + at + ahead, mask=there, other=float("inf"))
        total += tl.load(spent + at + ahead, mask=there, other=0.0) * tl.exp(u - largest)
    tl.store(beta + at, total, mask=inside)


@triton.jit(do_not_specialize=["N", "chunk"])
def chunk_means(grad, energy, grad_alpha, N, S, chunk, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    """All (N, S): dL/dalpha_k = c_k, the mean of grad under the softmax of the chunk at k."""
    row, j, inside = _block(N, S, ROWS, BLOCK)
    at = row * S + j
    top, total = _window(energy, at, j, inside, chunk)
    mean = tl.zeros_like(top)
    for back in range(chunk):
        there = inside & (j >= back)
        u = tl.load(energy + at - back, mask=there, other=float("-inf"))
        mean += tl.load(grad + at - back, mask=there, other=0.0) * tl.exp(u - top)
    tl.store(grad_alpha + at, mean / total, mask=inside)


@triton.jit(do_not_specialize=["N", "chunk"])
def chunkwise_adjoint(
    grad, energy, top, spent, mean, grad_u, N, S, chunk, ROWS: tl.constexpr, BLOCK: tl.constexpr
):
    """All (N, S): dL/du_j = sum over the chunks that hold j of alpha_k w_kj (grad_j - c_k)."""
    row, j, inside = _block(N, S, ROWS, BLOCK)
    at = row * S + j
    u = tl.load(energy + at, mask=inside, other=0.0)
    g = tl.load(grad + at, mask=inside, other=0.0)
    total = tl.zeros_like(u)
    for ahead in range(chunk):
        there = inside & (j + ahead < S)
        largest = tl.load(top + at + ahead, mask=there, other=float("inf"))
        weight = tl.load(spent + at + ahead, mask=there, other=0.0) * tl.exp(u - largest)
        total += weight * (g - tl.load(mean + at + ahead, mask=there, other=0.0))
    tl.store(grad_u + at, total, mask=inside)
