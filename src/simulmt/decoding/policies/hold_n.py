"""Hold-n (Liu et al. 2020): the end of a draft is the least certain, so it is held back."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, TypeAlias

from simulmt.decoding.policy import Draft, Policy, Progress
from simulmt.options import Limit, limited

Held: TypeAlias = Annotated[int, Limit("from 0 to 1,000,000", lambda n: 0 <= n <= 1_000_000)]


@limited
@dataclass(frozen=True)
class HoldN(Policy):
    """All words of a draft but the last n are written.

    Args:
        n: words held back.
    """

    n: Held

    def commit(self, progress: Progress, drafts: Sequence[Draft]) -> int:
        """All words but n."""
        return max(len(drafts[-1].words) - self.n, 0)
