"""An encoded source, which the encoder hands to the decoder."""

from typing import NamedTuple

from jaxtyping import Bool, Float, Int
from torch import Tensor


class Source(NamedTuple):
    """The encoded tokens of B source sentences that have been read, or the next few tokens."""

    tokens: Int[Tensor, "B S"]
    states: Float[Tensor, "B S D"]
    """Encoder states. Those of a causal encoder depend on their prefix alone."""
    mask: Bool[Tensor, "B S"]
    """True for real tokens."""
    finished: Bool[Tensor, "B"]
    """True if the last token, EOS, has been read."""
    averages: Float[Tensor, "B S D"] | None = None
    """Projected average of the embeddings of each prefix (`simulmt.models.average_embedding`)."""
    prefixes: Float[Tensor, "B P N D"] | None = None
    """States of the last P prefixes, each encoded on its own (`simulmt.models.reencoding`). N is
    the length of the longest prefix."""
    ends: Bool[Tensor, "B S"] | None = None
    """True where a word ends, if words are read as a whole; None if tokens are read one by one."""

    @property
    def stops(self) -> Bool[Tensor, "B S"]:
        """The tokens at which a head may stop."""
        return self.mask if self.ends is None else self.mask & self.ends
