"""Wait-k that catches up: after a while it writes two tokens for each token that it reads."""

from dataclasses import dataclass

from jaxtyping import Int
from torch import Tensor

from simulmt.attention.clock import Timetable
from simulmt.options import Count, Natural, limited
from simulmt.parts import Parts


@limited
@dataclass(frozen=True)
class CatchUp(Timetable):
    """Wait-k for the first `steady` target tokens, then two target tokens for each token read.

    Args:
        k: source tokens to read before the first target token.
        steady: target tokens at wait-k's pace.
    """

    k: Count
    steady: Natural
    dials = ("k", "steady")

    def wanted(self, step: Int[Tensor, "*N"]) -> Int[Tensor, "*N"]:
        """Return `k + min(i - 1, n) + floor(max(i - 1 - n, 0) / 2)`, where n is `steady`."""
        done = step - 1
        return self.k + done.clamp(max=self.steady) + (done - self.steady).clamp(min=0) // 2


parts = Parts(schedules={"catch_up": CatchUp})
