"""Wait-k at test time (Ma et al. 2019), for models that were trained on whole sentences."""

from dataclasses import dataclass
from typing import ClassVar

from simulmt.attention import Mechanism
from simulmt.attention.clocks.wait_k import Waits
from simulmt.decoding.policy import Policy, Progress
from simulmt.options import limited


@limited
@dataclass(frozen=True)
class WaitK(Policy):
    """Target word t is written once `k + t - 1` source words are read.

    Args:
        k: source words to read before the first target word.
    """

    drafts: ClassVar[bool] = False
    k: Waits

    def most(self, progress: Progress) -> int:
        """The words that are due."""
        return max(progress.words_read - self.k + 1 - progress.words_written, 0)

    def misfit(self, mechanism: Mechanism, layers: int) -> str:
        """A model with a clock of its own waits anyway."""
        if not mechanism.clocked or mechanism.offline:
            return ""
        return f"the clock of mechanism={mechanism.name} waits: leave out policy" + (
            ", and set dial.k" if "k" in mechanism.dials else ""
        )
