"""The options of beam search: its beam and its length penalty."""

from dataclasses import dataclass
from typing import Annotated

from annotated_types import Ge, Le
from torch import Tensor

from simulmt.options import Few, limited


@limited
@dataclass(frozen=True)
class Search:
    """The beam and the length penalty of a search.

    A hypothesis Y scores `log P(Y) / lp(Y)` with `lp(Y) = ((5 + |Y|) / 6) ** alpha` (GNMT, Wu et
    al. 2016, equation 14). |Y| counts the subwords written and EOS, as log P(Y) does.

    Args:
        beam: hypotheses kept for each sentence; 1 is greedy.
        length_penalty: alpha; 0 turns the length normalisation off.
    """

    beam: Few
    length_penalty: Annotated[float, Ge(0), Le(100)]

    def normaliser(self, length: Tensor | int) -> Tensor | float:
        """`lp` of hypotheses of `length` tokens, EOS included."""
        return ((5 + length) / 6) ** self.length_penalty


GREEDY = Search(beam=1, length_penalty=0.0)
