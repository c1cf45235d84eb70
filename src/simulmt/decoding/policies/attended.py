"""What AlignAtt and EDAtt share: they stop at a subword, by the attention of one decoder layer."""

from simulmt.attention import Mechanism
from simulmt.attention.spans import Lookback
from simulmt.decoding.policy import Policy


class AttentionPolicy(Policy):
    """Writes the words before the first subword that the attention forbids.

    Attributes:
        layer: The layer that is looked at, from 1; None for the one at two thirds of the decoder,
            such as the fourth of six.
    """

    layer: int | None

    def attends(self, layers: int) -> int:
        """The chosen layer, or that at two thirds."""
        return self.layer or -(-2 * layers // 3)

    def misfit(self, mechanism: Mechanism, layers: int) -> str:
        """Heads that see a part of what is read, or a layer that is not there."""
        if not (mechanism.clocked and isinstance(mechanism.span, Lookback)):
            return (
                f"it looks at attention to all that is read, and heads of mechanism="
                f"{mechanism.name} see a part of it: take policy=local_agreement"
            )
        if self.layer is not None and self.layer > layers:
            return (
                f"policy.layer={self.layer}, but {layers} layers of the model attend to the "
                f"source: set it from 1 to {layers}, or leave it out"
            )
        return ""
