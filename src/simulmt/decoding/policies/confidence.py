"""SM2 (Yu et al. 2024): a word is written once the model says that it is sure of it."""

from dataclasses import dataclass
from typing import ClassVar

from simulmt.attention import Mechanism
from simulmt.decoding.policies.adaptive_wait_k import Probability
from simulmt.decoding.policy import Policy, Progress, Subword
from simulmt.options import limited

AT_FIRST = 2
"""Source words that are read before the first target word."""


@limited
@dataclass(frozen=True)
class Confidence(Policy):
    """Writes up to the first word whose first subword has a confidence below gamma.

    Args:
        gamma: confidence that is asked for; more waits longer.
    """

    drafts: ClassVar[bool] = False
    gamma: Probability

    def most(self, progress: Progress) -> int | None:
        """No word before enough is read."""
        return 0 if progress.words_read < AT_FIRST else None

    def halts(self, progress: Progress, word: int, subword: Subword) -> bool:
        """At the first subword of a word that the model is not sure of."""
        return subword.begins and subword.confidence < self.gamma

    def misfit(self, mechanism: Mechanism, layers: int) -> str:
        """Only a model that was trained to can say how sure it is."""
        if mechanism.confident:
            return ""
        return f"mechanism={mechanism.name} has no confidence: take a run of mechanism=sm2"
