"""The options of beam search: its beam and its length penalty."""

from __future__ import annotations

import math
from dataclasses import dataclass

from torch import Tensor

LARGEST_BEAM = 1000


@dataclass(frozen=True)
class Search:
    """The beam and the length penalty of a search.

    A hypothesis Y scores `log P(Y) / lp(Y)` with `lp(Y) = ((5 + |Y|) / 6) ** alpha` (GNMT, Wu et
    al. 2016, equation 14). |Y| counts the subwords written and EOS, as log P(Y) does.

    Args:
        beam: hypotheses kept for each sentence; 1 is greedy.
        length_penalty: alpha; 0 turns the length normalisation off.

    Raises:
        ValueError: a value out of range.
    """

    beam: int
    length_penalty: float

    def __post_init__(self) -> None:
        if not 1 <= self.beam <= LARGEST_BEAM:
            raise ValueError(
                f"beam is {self.beam}; it must lie between 1, which is greedy, and {LARGEST_BEAM}"
            )
        if not 0 <= self.length_penalty < math.inf:
            raise ValueError(
                f"length_penalty is {self.length_penalty}; it must be a finite number from 0, "
                "which turns the length normalisation off"
            )

    def normaliser(self, length: Tensor | int) -> Tensor | float:
        """`lp` of hypotheses of `length` tokens, EOS included."""
        return ((5 + length) / 6) ** self.length_penalty


GREEDY = Search(beam=1, length_penalty=0.0)
