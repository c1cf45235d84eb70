"""The source as the attention of one layer sees it: projected once, used at every target step."""

from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from simulmt.attention.shapes import Keys


class Memory(NamedTuple):
    """Keys and values of the source states read so far, for a batch of sentences."""

    selection_keys: Keys
    """Keys of the schedule's score; of width 0 where a clock decides."""
    soft_keys: Keys
    """Keys of the span's score; of width 0 for a span that needs no score."""
    values: Float[Tensor, "B H S v"]
    mask: Bool[Tensor, "B S"]
    """True for real tokens."""
    finished: Bool[Tensor, "B"]
    """True if EOS, the last token of the sentence, has been read."""
    ends: Bool[Tensor, "B S"] | None = None
    """True where a word ends, if words are read as a whole."""
    averages: Float[Tensor, "B H S d"] | None = None
    """Projected average embeddings of each prefix (`simulmt.models.average_embedding`)."""

    @property
    def stops(self) -> Bool[Tensor, "B S"]:
        """The tokens at which a head may stop."""
        return self.mask if self.ends is None else self.mask & self.ends

    def whole(self, position: Int[Tensor, "B *N"]) -> Int[Tensor, "B *N"]:
        """Positions of tokens that have been read, moved on to the ends of their words."""
        if self.ends is None:
            return position
        end = ends_from(self.stops)
        return end.gather(1, (position.flatten(1) - 1).clamp(min=0)).view_as(position)

    @property
    def length(self) -> Int[Tensor, "B"]:
        """Number of source tokens read of each sentence."""
        return self.mask.sum(-1)

    @property
    def last(self) -> Bool[Tensor, "B S"]:
        """True at the position of EOS, once EOS has been read."""
        ends = places(self.mask, self.mask.shape[1]) == self.length[:, None]
        return ends & self.finished[:, None]

    def seen(self, read: Int[Tensor, "B"], finished: Bool[Tensor, "B"]) -> "Memory":
        """The memory of a causal encoder as if only its first `read` tokens had been read."""
        return self._replace(mask=first(self.mask, read), finished=finished)


def first(mask: Bool[Tensor, "B S"], read: Int[Tensor, "B"]) -> Bool[Tensor, "B S"]:
    """A mask of the same shape that is True for the first `read` tokens of each sentence."""
    return places(mask, mask.shape[1]) <= read[:, None]


def ends_from(ends: Bool[Tensor, "B S"]) -> Int[Tensor, "B S"]:
    """The first end at or after each place, from 1; S if there is none."""
    place = places(ends, ends.shape[1]).expand_as(ends)
    return place.where(ends, ends.shape[1]).flip(1).cummin(1).values.flip(1)


def places(like: Tensor, length: int) -> Int[Tensor, "S"]:
    """1, 2, ..., S on the device of `like`."""
    return torch.arange(1, length + 1, device=like.device)
