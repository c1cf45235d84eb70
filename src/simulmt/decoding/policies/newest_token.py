"""EMMA (Ma et al. 2023): a word is written once every head would stop at the newest token."""

from dataclasses import dataclass
from typing import ClassVar

from simulmt.attention import Mechanism
from simulmt.attention.schedules import Monotonic
from simulmt.attention.spans import Lookback
from simulmt.decoding.policies.adaptive_wait_k import Probability
from simulmt.decoding.policy import Policy, Progress, Subword
from simulmt.options import limited


@limited
@dataclass(frozen=True)
class NewestToken(Policy):
    """Writes up to the first word at which a head would rather read on.

    No head keeps a place in the source. At each step every head sees all that is read, and the
    least probability, of all layers and heads, to stop at the newest token decides.

    Args:
        threshold: the probability that is asked for; more waits longer.
    """

    drafts: ClassVar[bool] = False
    overrules: ClassVar[bool] = True
    threshold: Probability

    def halts(self, progress: Progress, word: int, subword: Subword) -> bool:
        """At the first subword of a word for which a head would read on."""
        return subword.begins and subword.confidence < self.threshold

    def misfit(self, mechanism: Mechanism, layers: int) -> str:
        """Heads that do not learn when to stop, or that see a part of what is read."""
        if isinstance(mechanism.schedule, Monotonic) and isinstance(mechanism.span, Lookback):
            return ""
        return (
            f"it asks heads that have learned when to stop and see all before, and mechanism="
            f"{mechanism.name} has none: take a run of mechanism=emma, mma_il or milk"
        )
