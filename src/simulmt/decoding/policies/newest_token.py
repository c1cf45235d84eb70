"""EMMA (Ma et al. 2023): a word is written once every head would stop at the newest token."""

from dataclasses import dataclass

from simulmt.attention import Mechanism
from simulmt.attention.schedules import Monotonic
from simulmt.attention.spans import Lookback
from simulmt.decoding.policy import Counts, Demands, Subword, SubwordPolicy
from simulmt.options import Chance, limited


@limited
@dataclass(frozen=True)
class NewestToken(SubwordPolicy):
    """Writes up to the first word at which a head would rather read on.

    No head keeps a place in the source. At each step every head sees all of the source that has
    been read, and the least probability, of all layers and heads, to stop at the newest token
    decides.

    Args:
        threshold: the least probability at which a word is written; a higher one waits longer.
    """

    threshold: Chance

    def halts(self, counts: Counts, word: int, subword: Subword) -> bool:
        """At the first subword of a word for which a head would read on."""
        return subword.begins and subword.confidence < self.threshold

    def demands(self, mechanism: Mechanism) -> Demands:
        """Heads that learn when to stop, and see everything before."""
        if isinstance(mechanism.schedule, Monotonic) and isinstance(mechanism.span, Lookback):
            return Demands(overrules=True)
        return Demands(
            "it needs learned monotonic heads with infinite lookback, and mechanism="
            f"{mechanism.name} has none: use a run of mechanism=emma, mma_il or milk"
        )
