"""A batch of sentence pairs, as an objective takes it."""

from collections.abc import Callable
from typing import Any, NamedTuple

from jaxtyping import Bool, Int
from torch import Tensor

from simulmt.attention import Past


class Batch(NamedTuple):
    """B pairs, with padding up to the longest row of each side.

    A row ends in EOS, except in streams (`simulmt.data.windows`).
    """

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
    past: Past | None = None
    """What precedes the pairs in streams."""

    @property
    def source_lengths(self) -> Int[Tensor, "B"]:
        """`source_end` and the next token, if there is one: EOS, or the first of what follows."""
        return self.source_end + (self.source_mask.sum(-1) > self.source_end)

    def each(self, change: Callable[[Tensor], Tensor]) -> "Batch":
        """The batch with each tensor changed, as by a copy to another device."""
        *parts, past = self
        changed: list[Any] = [*map(change, parts), past and Past(*map(change, past))]
        return Batch(*changed)
