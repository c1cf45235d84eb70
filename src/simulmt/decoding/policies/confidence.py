"""SM2 (Yu et al. 2024): a word is written once the model is confident of it."""

from dataclasses import dataclass

from simulmt.attention import Mechanism
from simulmt.decoding.policy import Counts, Demands, Subword, SubwordPolicy
from simulmt.options import Chance, limited

AT_FIRST = 2
"""Source words that are read before the first target word."""


@limited
@dataclass(frozen=True)
class Confidence(SubwordPolicy):
    """Writes up to the first word whose first subword has a confidence below gamma.

    Args:
        gamma: the least confidence at which a word is written; a higher one waits longer.
    """

    gamma: Chance

    def most(self, counts: Counts) -> int | None:
        """No word before two source words are read."""
        return 0 if counts.words_read < AT_FIRST else None

    def halts(self, counts: Counts, word: int, subword: Subword) -> bool:
        """At the first subword of a word whose confidence is below gamma."""
        return subword.begins and subword.confidence < self.gamma

    def demands(self, mechanism: Mechanism) -> Demands:
        """A model that was trained with a confidence."""
        if mechanism.confident:
            return Demands()
        return Demands(f"mechanism={mechanism.name} has no confidence: use a run of mechanism=sm2")
