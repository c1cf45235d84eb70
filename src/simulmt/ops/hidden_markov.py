"""The forward algorithm of a hidden Markov model over the moments to translate, as a pure function.

    log_f = forward_algorithm(translate, emission, reads)   # every state's share of the likelihood
    log_likelihood(log_f, lengths)                          # of whole sentences

(HMT, Zhang & Feng 2022.) Each target token i has K states, and state n has read c(i, n) source
tokens. The first token starts with t(1, n); from a state with c reads, the next token's states with
fewer reads are excluded and the others share all probability:

    P(n | i, c) = t(i, n) [c(i, n) >= c] / sum_m t(i, m) [c(i, m) >= c]
    f_1(n) = t(1, n) e(1, n)        f_i(n) = e(i, n) sum_m f_i-1(m) P(n | i, c(i-1, m))

All in logs and, where the device has it, in float64: log f of a long sentence is about -1000, and
float32 knows such a number to 6e-5 only. There is no clamp and no epsilon. `reference` is the
equations, with ordinary autograd, on any device; the CPU has a kernel with a hand-written adjoint,
which takes K steps per token where the equations take K².
"""

from collections.abc import Sequence

import torch
from jaxtyping import Float, Int
from torch import Tensor

from simulmt.ops.cpu import arrays, run_tiles
from simulmt.ops.operators import HIDDEN_MARKOV, operator

__all__ = ["forward_algorithm", "log_likelihood", "reference"]


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
        ValueError: the shapes differ, or `reads` are not integers.
    """
    _check(translate, emission, reads)
    double = torch.float64 in {translate.dtype, emission.dtype}
    exact = torch.float32 if translate.device.type == "mps" else torch.float64
    forward = _forward if translate.device.type == "cpu" else reference
    log_f: Tensor = forward(translate.to(exact), emission.to(exact), reads.long())
    return log_f.to(torch.float64 if double else torch.float32)


def log_likelihood(log_f: Float[Tensor, "B T K"], lengths: Int[Tensor, "B"]) -> Float[Tensor, "B"]:
    """Log sum_n f_T(n) at each sentence's last token, the log likelihood of the sentence.

    Args:
        log_f: what `forward_algorithm` returns.
        lengths: T of each sentence, its number of tokens, 1 or more. Steps after it get a gradient
            of 0.
    """
    last = log_f[torch.arange(len(log_f), device=log_f.device), lengths - 1]
    return _log_sum(last, -1).squeeze(-1)


def reference(
    translate: Float[Tensor, "B T K"],
    emission: Float[Tensor, "B T K"],
    reads: Int[Tensor, "B T K"],
) -> Float[Tensor, "B T K"]:
    """The same by the equations, in the inputs' type, token by token."""
    start = translate[:, :1].unbind(1)  # as from a single state before the first token
    steps = [*(x.unsqueeze(1) for x in start), *_transitions(translate, reads).unbind(1)]
    log_f = translate.new_zeros(len(translate), 1)
    rows = []
    for emission_i, transition_i in zip(emission.unbind(1), steps, strict=True):
        came = log_f.unsqueeze(-1) + transition_i  # (B, m, n)
        log_f = emission_i + _log_sum(came, 1).squeeze(1)
        rows.append(log_f)
    return torch.stack(rows, 1) if rows else translate + emission


def _transitions(
    translate: Float[Tensor, "B T K"], reads: Int[Tensor, "B T K"]
) -> Float[Tensor, "B T-1 K K"]:
    """Log P(n | i, c(i-1, m)) for tokens i = 2..T, at [b, i, m, n]."""
    excluded = reads[:, 1:, None, :] < reads[:, :-1, :, None]
    possible = translate[:, 1:, None, :].masked_fill(excluded, -torch.inf)
    total = _log_sum(possible, -1)
    return possible - total.masked_fill(total == -torch.inf, 0)


def _log_sum(x: Tensor, dim: int) -> Tensor:
    """logsumexp, keeping the dimension; if all terms are -inf the gradient is 0, not NaN."""
    empty = (x == -torch.inf).all(dim, keepdim=True)
    return x.masked_fill(empty, 0).logsumexp(dim, keepdim=True).masked_fill(empty, -torch.inf)


def _check(translate: Tensor, emission: Tensor, reads: Tensor) -> None:
    shapes = [tuple(x.shape) for x in (translate, emission, reads)]
    if len(set(shapes)) > 1 or translate.dim() != 3:
        raise ValueError(
            f"translate, emission and reads have shapes {', '.join(map(str, shapes))}; all must be "
            "(sentences, tokens, states): expand the smaller ones"
        )
    if reads.is_floating_point() or reads.dtype == torch.bool:
        raise ValueError(f"reads are {reads.dtype}, but they count tokens: make them torch.int64")


def _run(name: str, inputs: Sequence[Tensor], outputs: Sequence[Tensor]) -> None:
    kernel, size = f"hidden_markov_kernels.{name}", outputs[0].numel()
    run_tiles(kernel, len(outputs[0]), size, arrays(inputs), arrays(outputs))


_forward = operator("", HIDDEN_MARKOV, _run)
