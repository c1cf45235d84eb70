"""The forward algorithm of `hidden_markov`, compiled for the CPU: forward and adjoint.

Reads grow with n, so that the states that a state m may go to are those from some s(m) on, and s
grows with m. With the sums over a tail R_k = log sum_{n >= k} t(i, n), token i takes one pass:

    A_n = log sum_{m: s(m) <= n} f_i-1(m) / exp R_s(m)        log f_i(n) = log e(i, n) t(i, n) + A_n

A kernel works through the tiles `first..last` of 16 sentences and writes nothing outside them. All
arrays are (B, T, K) in float64; every exponential has an argument of at most 0.
"""

# mypy: disable-error-code="no-untyped-call"
import math
from typing import Any, TypeAlias

import numpy as np

from simulmt.ops.compiled import Array, compiled
from simulmt.ops.cpu import LANES

Arrays: TypeAlias = tuple[Array, ...]


@compiled
def _log_add(x: Any, y: Any) -> Any:
    """log(exp(x) + exp(y)), also of -inf."""
    high, low = max(x, y), min(x, y)
    return high if low == -np.inf else high + math.log1p(math.exp(low - high))


@compiled
def _ratio(x: Any, y: Any) -> Any:
    """exp(x - y), and 0 for an x of -inf, whatever y is."""
    return 0.0 if x == -np.inf else math.exp(x - y)


@compiled
def _arrive(
    i: int, translate: Array, reads: Array, log_f: Array, tails: Array, came: Array
) -> None:
    """R and A of token i, from the arrays of one sentence."""
    K = len(came)
    tail = total = -np.inf
    for n in range(K - 1, -1, -1):
        tail = tails[n] = _log_add(translate[i, n], tail)
    if i == 0:
        came[:] = 0
        return
    m = 0
    for n in range(K):
        while m < K and reads[i - 1, m] <= reads[i, n]:  # s(m) is n
            if tails[n] > -np.inf:
                total = _log_add(total, log_f[i - 1, m] - tails[n])
            m += 1
        came[n] = total


@compiled
def hidden_markov(inputs: Arrays, outputs: Arrays, first: int, last: int) -> None:
    """From translate, emission and reads to log f, from the first token to the last."""
    (translate, emission, reads), (log_f,) = inputs, outputs
    B, T, K = log_f.shape
    tails, came = np.zeros(K), np.zeros(K)
    for b in range(first * LANES, min(last * LANES, B)):
        for i in range(T):
            _arrive(i, translate[b], reads[b], log_f[b], tails, came)
            for n in range(K):
                log_f[b, i, n] = emission[b, i, n] + translate[b, i, n] + came[n]


@compiled
def _to_arrivals(grad: Array, translate: Array, came: Array, flow: Array) -> None:
    """In grad, dL/d(t + A), 0 at states where no path arrives; in flow, C_n.

    C_n = sum_{k >= n} grad_k exp(A_n - A_k), by C_n = grad_n + exp(A_n - A_n+1) C_n+1.
    """
    later, after = 0.0, came[-1]
    for n in range(len(came) - 1, -1, -1):
        if translate[n] == -np.inf or came[n] == -np.inf:
            grad[n] = 0
        later = grad[n] + _ratio(came[n], after) * later
        after = came[n]
        flow[n] = later


@compiled
def _leave(
    now: Array, before: Array, tails: Array, came: Array, flow: Array, log_f: Array, grad: Array
) -> None:
    """Of token i - 1, add dL/d log f to grad; in flow, dL/dR.

    A path from m enters at n = s(m): it gets the share exp(log f(m) - R_n - A_n) of C_n. `now` and
    `before` are the reads of the tokens i and i - 1.
    """
    m, K = 0, len(came)
    for n in range(K):
        taken = 0.0
        while m < K and before[m] <= now[n]:
            if tails[n] > -np.inf:
                share = _ratio(log_f[m], tails[n] + came[n]) * flow[n]
                grad[m] += share
                taken += share
            m += 1
        flow[n] = -taken


@compiled
def _to_states(flow: Array, translate: Array, tails: Array, grad: Array) -> None:
    """Add what the sums R get, in flow, to the gradient of translate.

    sum_{k <= n} flow_k exp(t_n - R_k), by D_n = flow_n + exp(R_n - R_n-1) D_n-1.
    """
    earlier, before = 0.0, tails[0]
    for n in range(len(flow)):
        earlier = flow[n] + _ratio(tails[n], before) * earlier
        before = tails[n]
        grad[n] += _ratio(translate[n], tails[n]) * earlier


@compiled
def hidden_markov_adjoint(inputs: Arrays, outputs: Arrays, first: int, last: int) -> None:
    """From the last token to the first; R and A are computed again."""
    grad, translate, log_f, reads = inputs
    grad_translate, grad_emission = outputs
    B, T, K = log_f.shape
    tails, came, flow = np.zeros(K), np.zeros(K), np.zeros(K)
    for b in range(first * LANES, min(last * LANES, B)):
        grad_emission[b] = grad[b]
        for i in range(T - 1, -1, -1):
            _arrive(i, translate[b], reads[b], log_f[b], tails, came)
            to_states = grad_translate[b, i]
            to_states[:] = grad_emission[b, i]
            _to_arrivals(to_states, translate[b, i], came, flow)
            if i > 0:
                above, to_above = log_f[b, i - 1], grad_emission[b, i - 1]
                _leave(reads[b, i], reads[b, i - 1], tails, came, flow, above, to_above)
                _to_states(flow, translate[b, i], tails, to_states)
