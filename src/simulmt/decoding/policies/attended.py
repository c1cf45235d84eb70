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
        layer = self.layer or TWO_THIRDS
        if mechanism.clocked and isinstance(mechanism.span, Lookback):
            if mechanism.offline:
                return Demands(layer=layer)
            if "k" in mechanism.dials:
                return Demands(layer=layer, dials={"k": LONGEST})
        return Demands(
            "it needs attention to all that is read, and heads of mechanism="
            f"{mechanism.name} see only a part of it: use policy=own, or mechanism=soft"
        )
