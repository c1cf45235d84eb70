"""The training objective: likelihood, latency and head divergence.

    L = sum over sentences [-log p(y|x) + lambda * L_avg + lambda_var * L_var] / target tokens

(MILk eq. 15; MMA eq. 17.) The sums and the count are kept apart, so that they can be added up
over gradient accumulation and over processes before one is divided by the other.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from simulmt import latency
from simulmt.errors import UserError
from simulmt.options import pick

LATENCIES = {
    "dal": latency.differentiable_average_lagging,
    "ap": latency.average_proportion,
}
LOST_MASS = {"length": 1, "nothing": 0}
"""How many times the source's length an attention counts that ran off the end."""


class Loss(NamedTuple):
    """Sums over the sentences of a batch."""

    total: Float[Tensor, ""]
    """What is minimised, before division by the number of tokens."""
    nll: Float[Tensor, ""]
    """Negative log-likelihood without label smoothing, in nats."""
    latency: Float[Tensor, ""]
    """L_avg, in source tokens (or a proportion, for AP); 0 where the schedule is fixed."""
    variance: Float[Tensor, ""]
    """L_var, in squared source tokens; 0 where the schedule is fixed."""
    tokens: Int[Tensor, ""]
    sentences: int
    learned: bool
    """Whether there was a latency to act on."""


class Objective:
    """Computes `Loss`.

    Args:
        latency_weight: lambda.
        variance_weight: lambda_var, the weight of the head divergence (MMA eq. 16).
        label_smoothing: mass spread over the vocabulary.
        latency: "dal" or "ap".
        lost_mass: what attention that ran off the end counts as in an expected delay: "length" or
            "nothing" (as in the MILk paper before it preserves mass).
        hold: updates during which both weights are held at 0.
        warmup: updates over which they then grow to their values.
    """

    def __init__(
        self,
        *,
        latency_weight: float,
        variance_weight: float,
        label_smoothing: float,
        latency: str,
        lost_mass: str,
        hold: int,
        warmup: int,
    ) -> None:
        for name, value in (("lambda", latency_weight), ("lambda_var", variance_weight)):
            if not 0 <= value < math.inf:
                raise UserError(f"{name} is {value}; it must be at least 0, and finite")
        if min(hold, warmup) < 0:
            raise UserError(
                f"objective.hold is {hold}, objective.warmup {warmup}; both count updates, from 0"
            )
        if not 0 <= label_smoothing < 1:
            raise UserError(f"objective.label_smoothing is {label_smoothing}; it lies in [0, 1)")
        self.latency_weight = latency_weight
        self.variance_weight = variance_weight
        self.label_smoothing = label_smoothing
        self.latency = pick(LATENCIES, latency, "objective.latency")
        self.lost_mass = pick(LOST_MASS, lost_mass, "objective.lost_mass")
        self.hold = hold
        self.warmup = warmup

    @property
    def wants_alpha(self) -> bool:
        """Whether it can act on nothing but a learned schedule."""
        return self.latency_weight > 0 or self.variance_weight > 0

    def strength(self, update: int) -> float:
        """Share of the latency weights in force at an update (from 0)."""
        if not self.wants_alpha:
            return 1.0
        return min(max((update + 1 - self.hold) / max(self.warmup, 1), 0.0), 1.0)

    def __call__(
        self,
        logits: Float[Tensor, "B T V"],
        alphas: Sequence[Float[Tensor, "B H T S"]],
        target: Int[Tensor, "B T"],
        source_mask: Bool[Tensor, "B S"],
        target_mask: Bool[Tensor, "B T"],
        update: int,
    ) -> Loss:
        """Sums over the batch, at the weights in force at `update`."""
        scores = logits.float().log_softmax(-1)
        loss = -scores.gather(-1, target[..., None])[..., 0]  # (B, T)
        spread = -scores.mean(-1)
        nll = (loss * target_mask).sum()
        smoothed = torch.lerp(loss, spread, self.label_smoothing)
        smoothed = (smoothed * target_mask).sum()
        lag = variance = smoothed.new_zeros(())
        if alphas:
            lost = self.lost_mass * source_mask.sum(-1)
            with torch.autocast(logits.device.type, enabled=False):  # positions need float32
                delays = expected_delays(alphas, lost)
                lag = self._lag(delays, source_mask, target_mask).sum()
                variance = head_divergence(delays, target_mask).sum()
        weighted = self.latency_weight * lag + self.variance_weight * variance
        total = smoothed + self.strength(update) * weighted
        tokens, sentences = target_mask.sum(), len(target)
        return Loss(
            total,
            nll.detach(),
            lag.detach(),
            variance.detach(),
            tokens,
            sentences,
            bool(alphas),
        )

    def _lag(
        self,
        delays: Float[Tensor, "B LH T"],
        source_mask: Bool[Tensor, "B S"],
        target_mask: Bool[Tensor, "B T"],
    ) -> Float[Tensor, "B"]:
        """L_avg of each sentence; EOS counts in both lengths here."""
        return self.latency(weighted_delay(delays), source_mask.sum(-1), target_mask.sum(-1))


def expected_delays(
    alphas: Sequence[Float[Tensor, "B H T S"]], when_lost: Int[Tensor, "B"]
) -> Float[Tensor, "B LH T"]:
    """`g_i = sum_j j alpha_ij + L (1 - sum_j alpha_ij)` of every head: what is lost counts as L.

    Summed as `L + sum_j (j - L) alpha_ij`, which passes over alpha once.
    """
    lost = when_lost.to(alphas[0].dtype)[:, None, None, None]
    places = torch.arange(1, alphas[0].shape[-1] + 1, device=lost.device, dtype=lost.dtype)
    return torch.cat([(alpha * (places - lost)).sum(-1) for alpha in alphas], 1) + lost[..., 0]


def weighted_delay(delays: Float[Tensor, "B LH T"]) -> Float[Tensor, "B T"]:
    """Weighted average over the heads, the slowest weighing most (MMA eq. 14)."""
    return (delays.softmax(1) * delays).sum(1)


def head_divergence(
    delays: Float[Tensor, "B LH T"], target_mask: Bool[Tensor, "B T"]
) -> Float[Tensor, "B"]:
    """Variance of the delays over the heads, averaged over target steps (MMA eq. 16)."""
    variance = (delays - delays.mean(1, keepdim=True)).square().mean(1)  # (B, T)
    return (variance * target_mask).sum(-1) / target_mask.sum(-1)
