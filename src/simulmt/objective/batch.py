"""A batch of sentence pairs, as an objective takes it."""

from typing import NamedTuple

from jaxtyping import Bool, Int
from torch import Tensor


class Batch(NamedTuple):
    """B pairs; every row ends in EOS, then padding up to the longest row of its side."""

    source: Int[Tensor, "B S"]
    source_mask: Bool[Tensor, "B S"]
    """True for real tokens, EOS among them."""
    target: Int[Tensor, "B T"]
    target_mask: Bool[Tensor, "B T"]
    """True for real tokens, EOS among them."""
    target_input: Int[Tensor, "B T"]
    """The decoder's input: BOS, then the target without its EOS."""
    index: Int[Tensor, "B"]  # type: ignore[assignment]  # hides tuple.index
    """The places of the pairs in their split."""
    source_end: Int[Tensor, "B"]
    """Source tokens of the pair, without EOS and without what follows in a stream."""
