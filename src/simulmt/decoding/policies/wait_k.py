"""Wait-k at test time (Ma et al. 2019), for models that were trained on whole sentences."""

from dataclasses import dataclass

from simulmt.attention import Mechanism
from simulmt.attention.clocks.wait_k import Waits
from simulmt.decoding.policy import Counts, Demands, SubwordPolicy, for_whole_sentences
from simulmt.options import limited


@limited
@dataclass(frozen=True)
class WaitK(SubwordPolicy):
    """Target word t is written once `k + t - 1` source words are read.

    Args:
        k: source words to read before the first target word.
    """

    k: Waits

    def most(self, counts: Counts) -> int:
        """The words that are due."""
        return max(counts.words_read - self.k + 1 - counts.words_written, 0)

    def demands(self, mechanism: Mechanism) -> Demands:
        """A model without a clock that waits."""
        if not mechanism.clocked or mechanism.offline:
            return Demands(unsuited=for_whole_sentences(mechanism))
        remedy = "leave out policy" + (", and set dial.k" if "k" in mechanism.dials else "")
        return Demands(f"the clock of mechanism={mechanism.name} waits: {remedy}")
