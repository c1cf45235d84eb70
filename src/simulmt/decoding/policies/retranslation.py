"""Re-translation (Arivazhagan et al. 2020): each draft is shown whole, and may be taken back."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from simulmt.decoding.policy import Draft, Policy, Progress


@dataclass(frozen=True)
class Retranslation(Policy):
    """Nothing is final before the source has ended; until then every draft replaces the last."""

    revises: ClassVar[bool] = True

    def commit(self, progress: Progress, drafts: Sequence[Draft]) -> int:
        """No word."""
        return 0
