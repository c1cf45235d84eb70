"""Re-translation (Arivazhagan et al. 2020): each draft is shown whole, and may be taken back."""

from collections.abc import Sequence
from dataclasses import dataclass

from simulmt.decoding.policy import Counts, Draft, DraftPolicy


@dataclass(frozen=True)
class Retranslation(DraftPolicy):
    """Nothing is final before the source has ended; until then every draft replaces the last."""

    revises = True

    def commit(self, counts: Counts, drafts: Sequence[Draft]) -> int:
        """No word."""
        return 0
