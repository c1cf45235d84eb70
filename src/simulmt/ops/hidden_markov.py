"""The forward algorithm of a hidden Markov model over the moments to translate, as a pure function.

    log_f = forward_algorithm(translate, emission, reads)   # every state's share of the likelihood
    log_likelihood(log_f, lengths)                          # of whole sentences

(HMT, Zhang & Feng 2023.) Each target token i has K states, and state n has read c(i, n) source
tokens. The first token starts with t(1, n); from a state with c reads, the next token's states with
fewer reads are excluded and the others share all probability:

    P(n | i, c) = t(i, n) [c(i, n) >= c] / sum_m t(i, m) [c(i, m) >= c]
    f_1(n) = t(1, n) e(1, n)        f_i(n) = e(i, n) sum_m f_i-1(m) P(n | i, c(i-1, m))

All in logs and in float64: log f of a long sentence is about -1000, and float32 has a precision of
6e-5 there. There is no clamp and no epsilon. Ordinary autograd does: a
model that decodes K states for each token spends 2% of a step here.
"""

import torch
from jaxtyping import Float, Int
from torch import Tensor


def forward_algorithm(
    translate: Float[Tensor, "B T K"],
    emission: Float[Tensor, "B T K"],
    reads: Int[Tensor, "B T K"],
) -> Float[Tensor, "B T K"]:
    """Log f_i(n), the log probability of the tokens 1..i and of translating token i at state n.

    A path whose next token has no state to go to, since all t(i, n) that it may reach are 0, ends
    there: its mass is lost. If no path arrives at a state, log f is -inf, and no gradient passes.
    Steps after a sentence's end change nothing before it, whatever finite values or -inf they hold.

    Args:
        translate: log t(i, n), the log probability of translating token i at state n and waiting at
            all states before; exp(translate) sums to 1 over n, and -inf is allowed.
        emission: log e(i, n) = log p(y_i | state (i, n)). Zeros give the distribution of the states
            under the transitions alone.
        reads: c(i, n), the source tokens read, non-decreasing in n and in i; no gradient.

    Returns:
        log f, in float64 if `translate` or `emission` is float64, otherwise in float32.

    Raises:
        ValueError: the shapes differ.
    """
    shapes = [tuple(x.shape) for x in (translate, emission, reads)]
    if len(set(shapes)) > 1 or translate.dim() != 3:
        raise ValueError(
            f"translate, emission and reads have shapes {', '.join(map(str, shapes))}; all must be "
            "(sentences, tokens, states): expand the smaller ones"
        )
    double = torch.float64 in {translate.dtype, emission.dtype}
    translate, emission = translate.double(), emission.double()
    log_f = translate.new_zeros(len(translate), 1)  # as from a single state before the first token
    rows = []
    steps = zip(emission.unbind(1), _transitions(translate, reads), strict=True)
    for emission_i, transition_i in steps:
        came = log_f.unsqueeze(-1) + transition_i  # (B, m, n)
        log_f = emission_i + _log_sum(came, 1).squeeze(1)
        rows.append(log_f)
    found = torch.stack(rows, 1) if rows else translate + emission
    return found.to(torch.float64 if double else torch.float32)


def log_likelihood(log_f: Float[Tensor, "B T K"], lengths: Int[Tensor, "B"]) -> Float[Tensor, "B"]:
    """Log sum_n f_T(n) at each sentence's last token, the log likelihood of the sentence.

    Args:
        log_f: what `forward_algorithm` returns.
        lengths: T of each sentence, its number of tokens, 1 or more. Steps after it get a gradient
            of 0.
    """
    last = log_f[torch.arange(len(log_f), device=log_f.device), lengths - 1]
    return _log_sum(last, -1).squeeze(-1)


def _transitions(
    translate: Float[Tensor, "B T K"], reads: Int[Tensor, "B T K"]
) -> list[Float[Tensor, "B M K"]]:
    """Log P(n | i, c(i-1, m)) for each token i, at [b, m, n]; the first has a single state m."""
    excluded = reads[:, 1:, None, :] < reads[:, :-1, :, None]
    possible = translate[:, 1:, None, :].masked_fill(excluded, -torch.inf)
    total = _log_sum(possible, -1)
    rest = possible - total.masked_fill(total == -torch.inf, 0)  # (B, T-1, K, K)
    return [*translate[:, :1].unsqueeze(2).unbind(1), *rest.unbind(1)]


def _log_sum(x: Tensor, dim: int) -> Tensor:
    """logsumexp, keeping the dimension; if all terms are -inf the gradient is 0, not NaN."""
    empty = (x == -torch.inf).all(dim, keepdim=True)
    return x.masked_fill(empty, 0).logsumexp(dim, keepdim=True).masked_fill(empty, -torch.inf)
