"""The shared part of AlignAtt and EDAtt, which halt at a subword by the attention of one layer."""

from simulmt.attention import Mechanism
from simulmt.attention.clocks.wait_k import LONGEST
from simulmt.attention.spans import Lookback
from simulmt.decoding.policy import TWO_THIRDS, Demands, SubwordPolicy


class AttentionPolicy(SubwordPolicy):
    """Writes the words before the first subword that the attention forbids.

    Attributes:
        layer: The decoder layer whose attention counts, from 1; None for the one at two thirds.
    """

    layer: int | None
    beams = True

    def demands(self, mechanism: Mechanism) -> Demands:
        """Heads that see all of the source that has been read."""
        waits = {"k": LONGEST} if "k" in mechanism.dials else {}
        sees_all = isinstance(mechanism.span, Lookback) and (mechanism.offline or waits)
        if mechanism.clocked and sees_all:
            return Demands(layer=self.layer or TWO_THIRDS, dials=waits)
        return Demands(
            "it needs attention to all that is read, and heads of mechanism="
            f"{mechanism.name} see only a part of it: use policy=own, or a run of mechanism=soft"
        )
