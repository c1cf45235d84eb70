"""Multi-path wait-k: one model for every k (Elbayad et al. 2020)."""

from dataclasses import dataclass
from typing import ClassVar

from jaxtyping import Int
from torch import Tensor

from simulmt.attention.clock import Timetable, after
from simulmt.attention.clocks.wait_k import Rate, WaitK, Waits
from simulmt.attention.memory import places
from simulmt.attention.moment import Moment, uniform
from simulmt.attention.plan import Plan, Stops
from simulmt.attention.source import Source
from simulmt.errors import UserError
from simulmt.options import limited


@limited
@dataclass(frozen=True)
class MultiPath(Timetable):
    """`g_i = min(k + floor((i - 1) / r), S)`, with a k for each sentence and update.

    In training k is uniform over `min(k_min, S), ..., min(k_max, S)`, where S counts words if the
    mechanism reads words. A trained model can use any k, which is its dial.

    Args:
        k_min: the smallest k of the training.
        k_max: the largest k of the training.
        k: the k of validation and test.
        emission_rate: r, as of wait-k.

    Raises:
        UserError: `k_min` is above `k_max`.
    """

    k_min: Waits
    k_max: Waits
    k: Waits
    emission_rate: Rate = 1.0
    dials: ClassVar[tuple[str, ...]] = ("k",)

    def __post_init__(self) -> None:
        if self.k_min > self.k_max:
            raise UserError(
                f"mechanism.k_min={self.k_min} with k_max={self.k_max}: k is drawn from k_min to "
                "k_max; lower k_min, or raise k_max"
            )

    def wanted(self, step: Int[Tensor, "*N"]) -> Int[Tensor, "*N"]:
        """Wait-k with the fixed k."""
        return WaitK(self.k, self.emission_rate).wanted(step)

    def plan(self, source: Source, target: Int[Tensor, "B T"], moment: Moment) -> Plan:
        """Stops for a k drawn for each sentence; for the fixed k where there is no draw."""
        if moment.draw is None:
            return super().plan(source, target, moment)
        length = source.stops.sum(-1)  # (B,)
        least, most = length.clamp(max=self.k_min), length.clamp(max=self.k_max)
        k = uniform(moment.draw, least, most)
        later = self.wanted(places(target, target.shape[1])) - self.k
        return Plan(Stops(after(k[:, None] + later, source.stops)[:, None]))
