"""Wait-k: read k tokens, then write at a fixed pace (STACL, Ma et al. 2019)."""

from dataclasses import dataclass
from fractions import Fraction
from typing import Annotated, ClassVar, TypeAlias

from annotated_types import Ge, Le
from jaxtyping import Int
from torch import Tensor

from simulmt.attention.clock import Timetable
from simulmt.options import limited

LONGEST = 1_000_000
"""The largest k, with which a model sees all that is read."""
Waits: TypeAlias = Annotated[int, Ge(1), Le(LONGEST)]
Rate: TypeAlias = Annotated[float, Ge(0.01), Le(100)]


@limited
@dataclass(frozen=True)
class WaitK(Timetable):
    """`g_i = min(k + floor((i - 1) / r), S)`.

    Args:
        k: source tokens, or words, to read before the first target token or word.
        emission_rate: r, the target tokens or words written for each source one read after that;
            other rates than 1 are STACL's catch-up.
    """

    k: Waits
    emission_rate: Rate = 1.0
    dials: ClassVar[tuple[str, ...]] = ("k",)

    def wanted(self, step: Int[Tensor, "*N"]) -> Int[Tensor, "*N"]:
        """`k + floor((i - 1) / r)`."""
        # exact, as 33 / 1.1 is not 30 in floating point; larger denominators would overflow
        rate = Fraction(self.emission_rate).limit_denominator(1_000_000)
        return self.k + (step - 1) * rate.denominator // rate.numerator
