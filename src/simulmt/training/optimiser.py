"""Adam, and the learning-rate schedules that it can follow.

The constructor of a schedule is the schema of its options: `optim.schedule` names one of
`LEARNING_RATES`, and what neither it nor Adam names is an error.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from simulmt.errors import UserError
from simulmt.options import asked_of, check, pick


class LearningRate(Protocol):
    """A learning rate that changes from update to update."""

    @property
    def lr(self) -> float:
        """What `factor` is a share of."""

    def factor(self, update: int) -> float:
        """Learning rate at an update (from 0), as a multiple of `lr`."""


@dataclass(frozen=True)
class InverseSquareRoot:
    """A linear warm-up, then a decay with the square root (Vaswani et al. 2017, eq. 3).

    lr_t = lr * min(t / warmup, sqrt(warmup / t))        t = 1, 2, ...
    """

    lr: float
    """The peak."""
    warmup: int
    """Updates until the peak."""

    def __post_init__(self) -> None:
        _check_ramp(self.lr, self.warmup)

    def factor(self, update: int) -> float:
        """Learning rate at an update (from 0), as a multiple of `lr`."""
        return min((update + 1) / self.warmup, math.sqrt(self.warmup / (update + 1)))


@dataclass(frozen=True)
class RnmtPlus:
    """RNMT+'s schedule for n replicas that train in step (Chen et al. 2018, section 4).

    `lr_t = lr * min(1 + t (n - 1) / (n p), n, n (2n)^((s - n t) / (e - s)))`, t = 0, 1, ...

    It grows from `lr` to `n * lr` in `n * p` updates, falls from update `s / n` on, and stays at
    `lr / 2` from update `e / n` on. If the fall begins before the growth has ended, the peak is
    where the two meet.
    """

    lr: float
    """Learning rate of one replica."""
    replicas: int
    """n: how many times the batch of one replica an update is made of."""
    warmup: int
    """p, in updates for each replica."""
    decay_start: int
    """s, in batches of one replica, as is `decay_end`."""
    decay_end: int
    """e."""

    def __post_init__(self) -> None:
        _check_ramp(self.lr, self.warmup)
        if self.replicas < 1:
            raise UserError(f"optim.replicas is {self.replicas}; it must be at least 1")
        if not 0 <= self.decay_start < self.decay_end:
            raise UserError(
                f"optim.decay_start is {self.decay_start} and optim.decay_end {self.decay_end}; "
                "the decay must start at 0 or later, and end after it starts: raise decay_end"
            )

    def factor(self, update: int) -> float:
        """Learning rate at an update (from 0), as a multiple of `lr`."""
        n = self.replicas
        ramp = 1 + update * (n - 1) / (n * self.warmup)
        decayed = (n * update - self.decay_start) / (self.decay_end - self.decay_start)
        return float(min(ramp, n * (2 * n) ** -min(max(decayed, 0.0), 1.0)))


LEARNING_RATES: dict[str, Callable[..., LearningRate]] = {
    "inverse_sqrt": InverseSquareRoot,
    "rnmt_plus": RnmtPlus,
}


@dataclass(frozen=True)
class Adam:
    """Adam's settings (Kingma & Ba 2015) and the learning rate it follows."""

    rate: LearningRate
    beta1: float
    beta2: float
    eps: float

    def __post_init__(self) -> None:
        if not (0 <= self.beta1 < 1 and 0 <= self.beta2 < 1 and self.eps > 0):
            raise UserError(
                f"optim.beta1 is {self.beta1}, optim.beta2 {self.beta2} and optim.eps {self.eps}; "
                "the betas lie in [0, 1), and eps must be above 0"
            )

    def lr(self, update: int) -> float:
        """Learning rate at an update (from 0)."""
        return self.rate.lr * self.rate.factor(update)


def make_adam(options: Mapping[str, Any]) -> Adam:
    """Adam from the options of a `conf/optim` group, each given to the part that names it.

    Raises:
        UserError: an unknown schedule, or an option that is missing, unknown or out of range.
    """
    make_rate = pick(LEARNING_RATES, str(options.get("schedule")), "optim.schedule")
    of_rate = asked_of(make_rate, {})
    of_adam = asked_of(Adam, {"rate": None})
    check(options, {"schedule": str} | of_rate | of_adam, "optim")
    rate = make_rate(**{name: options[name] for name in of_rate})
    return Adam(rate, **{name: options[name] for name in of_adam})


def _check_ramp(lr: float, warmup: int) -> None:
    if not 0 < lr < math.inf or warmup < 1:
        raise UserError(
            f"optim.lr is {lr} and optim.warmup {warmup}; lr must be above 0 and finite, and "
            "warmup at least 1 update"
        )
