"""Adam, and the learning-rate schedules that it can follow.

`optim.schedule` names one of `LEARNING_RATES`, whose constructor is the schema of its options.
"""

import math
from dataclasses import dataclass
from typing import TypeAlias

from simulmt.errors import UserError
from simulmt.options import (
    Config,
    Count,
    Natural,
    Positive,
    Share,
    asked_of,
    check_options,
    construct_own,
    pick,
)


@dataclass(frozen=True)
class InverseSquareRoot:
    """A linear warm-up, then a decay with the square root (Vaswani et al. 2017, eq. 3).

    lr_t = lr * min(t / warmup, sqrt(warmup / t))        t = 1, 2, ...
    """

    lr: Positive
    """The peak."""
    warmup: Count
    """Updates until the peak."""

    def factor(self, update: int) -> float:
        """Return the learning rate at an update (from 0), as a multiple of `lr`."""
        return min((update + 1) / self.warmup, math.sqrt(self.warmup / (update + 1)))


@dataclass(frozen=True)
class RnmtPlusRate:
    """RNMT+'s schedule for n synchronous replicas (Chen et al. 2018, section 4).

    `lr_t = lr * min(1 + t (n - 1) / (n p), n, n (2n)^((s - n t) / (e - s)))`, t = 0, 1, ...

    It grows from `lr` to `n * lr` in `n * p` updates, falls from update `s / n` on, and stays at
    `lr / 2` from update `e / n` on. If the fall begins before the growth has ended, the peak is
    where the two meet.
    """

    lr: Positive
    """Learning rate of one replica."""
    replicas: Count
    """n: the batches of one replica that make an update."""
    warmup: Count
    """p, in updates for each replica."""
    decay_start: Natural
    """s, in batches of one replica, as is `decay_end`."""
    decay_end: Natural
    """e."""

    def __post_init__(self) -> None:
        if self.decay_start >= self.decay_end:
            raise UserError(
                f"optim.decay_start is {self.decay_start} and optim.decay_end {self.decay_end}; "
                "the decay must end after it starts: raise decay_end"
            )

    def factor(self, update: int) -> float:
        """Return the learning rate at an update (from 0), as a multiple of `lr`."""
        n = self.replicas
        ramp = 1 + update * (n - 1) / (n * self.warmup)
        decayed = (n * update - self.decay_start) / (self.decay_end - self.decay_start)
        return float(min(ramp, n * (2 * n) ** -min(max(decayed, 0.0), 1.0)))


LearningRate: TypeAlias = InverseSquareRoot | RnmtPlusRate
"""A learning rate that changes from update to update: `lr`, which `factor` multiplies."""
LEARNING_RATES: dict[str, type[LearningRate]] = {
    "inverse_sqrt": InverseSquareRoot,
    "rnmt_plus": RnmtPlusRate,
}


@dataclass(frozen=True)
class Adam:
    """Adam's settings (Kingma & Ba 2015) and its learning rate."""

    rate: LearningRate
    beta1: Share
    beta2: Share
    eps: Positive

    def lr(self, update: int) -> float:
        """Return the learning rate at an update (from 0)."""
        return self.rate.lr * self.rate.factor(update)


def make_adam(options: Config) -> Adam:
    """Return Adam for the options of a `conf/optim` group; each goes to the part that names it.

    Raises:
        UserError: an unknown schedule, or an option that is missing, unknown or out of range.
    """
    make_rate = pick(LEARNING_RATES, str(options.get("schedule")), "optim.schedule")
    asked = {"schedule": str, **asked_of(make_rate), **asked_of(Adam, ["rate"])}
    check_options(options, asked, "optim")
    rate = construct_own(make_rate, options, "optim")
    return construct_own(Adam, options, "optim", {"rate": rate})
