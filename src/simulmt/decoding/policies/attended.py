"""What AlignAtt and EDAtt share: they stop at a subword, by the attention of one decoder layer."""

from abc import abstractmethod
from collections.abc import Sequence

import numpy as np
from jaxtyping import Bool, Float
from numpy.typing import NDArray

from simulmt.attention import Mechanism
from simulmt.attention.spans import Lookback
from simulmt.decoding.policy import Draft, Policy, Progress


class AttentionPolicy(Policy):
    """Writes the words before the first subword that the attention forbids.

    Attributes:
        layer: The layer that is looked at, from 1; None for the one at two thirds of the decoder,
            such as the fourth of six.
    """

    layer: int | None

    @abstractmethod
    def forbidden(
        self, attention: Float[NDArray[np.float64], "n S"]
    ) -> Bool[NDArray[np.bool_], "n"]:
        """Whether each subword may not be written; the rows of the attention sum to 1."""

    def commit(self, progress: Progress, drafts: Sequence[Draft]) -> int:
        """The words that end before the first forbidden subword."""
        draft = drafts[-1]
        forbidden = self.forbidden(draft.attention)
        free = int(forbidden.argmax()) if forbidden.any() else len(draft.tokens)
        return sum(1 for end in draft.ends if end <= free)

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
