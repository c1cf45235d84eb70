"""Wait-k: read k tokens, then write at a fixed pace (STACL, Ma et al. 2019)."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

from jaxtyping import Int
from torch import Tensor

from simulmt.attention.clock import Timetable


@dataclass(frozen=True)
class WaitK(Timetable):
    """`g_i = min(k + floor((i - 1) / r), S)`.

    Args:
        k: source tokens to read before the first target token.
        emission_rate: r, the target tokens written for each source token read after that.

    Raises:
        ValueError: a value out of range.
    """

    k: int
    emission_rate: float = 1.0
    dials: ClassVar[tuple[str, ...]] = ("k",)
    LARGEST: ClassVar[int] = 1_000_000

    def __post_init__(self) -> None:
        if not 1 <= self.k <= self.LARGEST:
            raise ValueError(
                f"k is {self.k}; wait-k reads 1 to {self.LARGEST:,} tokens before it writes"
            )
        if not 0.01 <= self.emission_rate <= 100:
            raise ValueError(f"emission_rate is {self.emission_rate}; it lies in [0.01, 100]")

    def wanted(self, step: Int[Tensor, "*N"]) -> Int[Tensor, "*N"]:
        """`k + floor((i - 1) / r)`."""
        rate = Fraction(str(self.emission_rate))  # exact: 33 / 1.1 is not 30 in floating point
        return self.k + (step - 1) * rate.denominator // rate.numerator
