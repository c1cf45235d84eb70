"""An encoded source, which the encoder hands to the decoder."""

from typing import NamedTuple

from jaxtyping import Bool, Float, Int
from torch import Tensor


class Past(NamedTuple):
    """What precedes a segment of a stream, in B streams: some of the segments before it.

    Both sides are padded on the left. The self-attention of encoder and decoder sees the past; the
    attention to the source does not.
    """

    source: Int[Tensor, "B P"]
    """Their source tokens."""
    source_mask: Bool[Tensor, "B P"]
    """True for real tokens."""
    target: Int[Tensor, "B Q"]
    """Their translations, each with EOS."""
    target_mask: Bool[Tensor, "B Q"]
    """True for real tokens."""

    def expand(self, rows: int) -> "Past":
        """Return the past of one stream as that of several."""
        return Past(*(part.expand(rows, -1) for part in self))


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
    past: Past | None = None
    """What precedes it in a stream."""

    @property
    def stops(self) -> Bool[Tensor, "B S"]:
        """The tokens at which a head may stop."""
        return self.mask if self.ends is None else self.mask & self.ends
