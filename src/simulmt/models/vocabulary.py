"""A vocabulary: the number of subwords, the ids of the special ones, and where words begin."""

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np


class Vocabulary(NamedTuple):
    """The size and the special ids that models and decoding share."""

    size: int
    """Number of subwords, the special ones included."""
    pad: int = 0
    """Pads a batch on the right; no model may write PAD."""
    unk: int = 1
    """Stands for characters that no subword covers."""
    bos: int = 2
    """The decoder's input before the first target subword; no model writes BOS. It may be PAD."""
    eos: int = 3
    """Ends a source and a target sentence."""
    begins: tuple[bool, ...] = ()
    """True for each subword that begins a word, as the special ones do; empty if all do."""
    whole: bool = False
    """True if each target subword holds whole words, such as characters, so all begin one."""
    opening: tuple[int, ...] = ()
    """Tokens that open each source sentence and belong to its first word, for example a tag of the
    target language."""

    def words(self, tokens: Iterable[int]) -> Iterator[list[int]]:
        """Source tokens word by word; what opens a sentence belongs to its first word."""
        word: list[int] = []
        for token in tokens:
            begins = not self.begins or self.begins[token]
            if word and begins and word[-1] not in self.opening:
                yield word
                word = []
            word.append(token)
        if word:
            yield word

    @property
    def special(self) -> tuple[int, ...]:
        """The special ids."""
        return self.pad, self.unk, self.bos, self.eos

    @property
    def dtype(self) -> "np.dtype[Any]":
        """The smallest type that ids are kept in: 2 or 4 bytes."""
        return np.dtype(np.uint16 if self.size <= 1 << 16 else np.int32)
