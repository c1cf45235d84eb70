"""Expected delays of the heads, and their variances: what the latency terms are made of.

`alpha_ij` is the probability that j source tokens are read for target step i.
"""

from collections.abc import Sequence

import torch
from jaxtyping import Float, Int
from torch import Tensor

from simulmt.attention.shapes import Weights


def expected_delays(
    alphas: Sequence[Weights], place: Int[Tensor, "B S"], when_lost: Int[Tensor, "B"]
) -> Float[Tensor, "B LH T"]:
    """`g_i = sum_j w(j) alpha_ij + L (1 - sum_j alpha_ij)` of every head: lost mass counts as L.

    The sum is computed as `L + sum_j (w(j) - L) alpha_ij`, in one pass over alpha.

    Args:
        alphas: expected alignments, one for each layer.
        place: w(j), the number of each source token, or of its word, from 1.
        when_lost: L of each sentence.
    """
    lost = when_lost.to(alphas[0].dtype)
    later = (place - lost[:, None])[:, None, None]
    total = torch.cat([(alpha * later).sum(-1) for alpha in alphas], 1)
    return total + lost[:, None, None]


def weighted_delay(delays: Float[Tensor, "B LH T"]) -> Float[Tensor, "B T"]:
    """Average of the delays over the heads, weighted by their softmax (MMA eq. 14)."""
    return (delays.softmax(1) * delays).sum(1)


def head_divergence(delays: Float[Tensor, "B LH T"]) -> Float[Tensor, "B T"]:
    """`1/H sum_h (g_h - mean of g)^2`, the variance of the delays over the heads (MMA eq. 16)."""
    return (delays - delays.mean(1, keepdim=True)).square().mean(1)


def alignment_variance(
    alphas: Sequence[Weights], place: Int[Tensor, "B S"]
) -> Float[Tensor, "B T"]:
    """`E[j^2] - E[j]^2`, the variance of the place where a head stops, averaged over heads (EMMA).

    It is computed as `E[(j - E[j])^2]`, which does not cancel. The sums are over the mass that
    stops; if mass is lost, they are not divided by what remains.

    Args:
        alphas: expected alignments, one for each layer.
        place: the number of each source token, or of its word, from 1.
    """
    totals = []
    for alpha in alphas:
        j = place[:, None, None].to(alpha.dtype)  # (B, 1, 1, S)
        mean = (alpha * j).sum(-1, keepdim=True)
        totals.append((alpha * (j - mean).square()).sum(-1))
    return torch.cat(totals, 1).mean(1)
