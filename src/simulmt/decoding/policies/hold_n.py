"""Hold-n (Liu et al. 2020): the end of a draft is the least certain, so it is held back."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, TypeAlias

from annotated_types import Ge, Le

from simulmt.decoding.policy import Counts, Draft, DraftPolicy
from simulmt.options import limited

Held: TypeAlias = Annotated[int, Ge(0), Le(1_000_000)]


@limited
@dataclass(frozen=True)
class HoldN(DraftPolicy):
    """All finished words of a draft except the last n are written.

    The draft's last word, which no other word follows, is withheld before n counts: n = 0 is
    LA-1.

    Args:
        n: finished words held back.
    """

    n: Held

    @property
    def ends(self) -> bool:
        """Only with n = 0: nothing follows EOS, so it would always be held back."""
        return self.n == 0

    def commit(self, counts: Counts, drafts: Sequence[Draft]) -> int:
        """All finished words except n."""
        return max(len(drafts[-1].words) - self.n, 0)
