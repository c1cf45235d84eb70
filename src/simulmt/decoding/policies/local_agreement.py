"""Local agreement (Liu et al. 2020): what several drafts in a row agree on is written."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, TypeAlias

from annotated_types import Ge, Le

from simulmt.decoding.policy import Counts, Draft, DraftPolicy, common_length
from simulmt.options import limited

Agreeing: TypeAlias = Annotated[int, Ge(1), Le(100)]


@limited
@dataclass(frozen=True)
class LocalAgreement(DraftPolicy):
    """LA-n: the longest common prefix, in finished words, of the last n hypotheses is written.

    Args:
        n: hypotheses that have to agree; nothing is written before the n-th read.
    """

    n: Agreeing

    @property
    def past(self) -> int:
        """`n - 1`, so that n drafts are compared."""
        return self.n - 1

    def commit(self, counts: Counts, drafts: Sequence[Draft]) -> int:
        """The words of the common prefix beyond what is written."""
        if len(drafts) < self.n:
            return 0
        agreed = common_length([draft.hypothesis for draft in drafts])
        return max(agreed - counts.words_written, 0)
