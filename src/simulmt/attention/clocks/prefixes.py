"""Read the whole sentence, or any prefix of it as if it were one (SM2, Yu et al. 2024)."""

from dataclasses import dataclass
from typing import ClassVar

from simulmt.attention.clocks.full_sentence import FullSentence


@dataclass(frozen=True)
class Prefixes(FullSentence):
    """`g_i = S` of whatever is given, for a model that also has a confidence in each token."""

    confident: ClassVar[bool] = True
