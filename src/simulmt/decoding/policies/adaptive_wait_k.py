"""Adaptive wait-k (Zheng et al. 2020, arXiv 2004.13169): a likely word need not wait."""

from dataclasses import dataclass

from simulmt.attention import Mechanism
from simulmt.attention.clocks import MultiPath
from simulmt.attention.clocks.wait_k import LONGEST, Waits
from simulmt.decoding.policy import Counts, Demands, Subword, SubwordPolicy, for_whole_sentences
from simulmt.errors import UserError
from simulmt.options import Chance, limited


@limited
@dataclass(frozen=True)
class AdaptiveWaitK(SubwordPolicy):
    """With a lag of words read less words written: read below `k_min`, write from `k_max` on.

    Between them a word is written if the probability of its first subword is at least rho, which
    falls linearly from `rho_max` at `k_min` to `rho_min` at `k_max`. The paper uses a wait-k
    model for each lag; here one multi-path model is enough, which sees all that is read.

    Args:
        k_min: the least lag at which a word is written.
        k_max: the lag from which on each word is written.
        rho_max: the least probability at `k_min`.
        rho_min: the least probability at `k_max`.
    """

    k_min: Waits
    k_max: Waits
    rho_max: Chance
    rho_min: Chance

    def __post_init__(self) -> None:
        for least, most in (("k_min", "k_max"), ("rho_min", "rho_max")):
            low, high = getattr(self, least), getattr(self, most)
            if low > high:
                raise UserError(
                    f"policy.{least}={low} with policy.{most}={high}: lower {least}, or raise "
                    f"{most}"
                )

    def rho(self, lag: int) -> float:
        """The least probability at which a word is written."""
        if lag < self.k_min:
            return float("inf")
        if lag >= self.k_max:
            return 0.0
        share = (lag - self.k_min) / (self.k_max - self.k_min)
        return self.rho_max + share * (self.rho_min - self.rho_max)

    def most(self, counts: Counts) -> int:
        """As many words as bring the lag below `k_min`."""
        return max(counts.words_read - counts.words_written - self.k_min + 1, 0)

    def halts(self, counts: Counts, word: int, subword: Subword) -> bool:
        """At the first subword of a word that is not probable enough."""
        lag = counts.words_read - counts.words_written - word
        return subword.begins and subword.probability < self.rho(lag)

    def demands(self, mechanism: Mechanism) -> Demands:
        """A model that can write at any lag; a multi-path model then sees all that is read."""
        if isinstance(mechanism.schedule, MultiPath):
            return Demands(dials={"k": LONGEST})
        if mechanism.clocked and not mechanism.offline:
            waits = f"the clock of mechanism={mechanism.name} waits"
            return Demands(f"{waits}: use a run of mechanism=multi_path or soft")
        return Demands(unsuited=for_whole_sentences(mechanism))
