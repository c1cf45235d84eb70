"""A vocabulary: how many subwords there are, and which of their ids have a meaning of their own."""

from __future__ import annotations

from typing import NamedTuple


class Vocabulary(NamedTuple):
    """The ids that a model is built for, and that decoding goes by."""

    size: int
    """Number of subwords, the special ones included."""
    pad: int = 0
    """Fills a batch on the right; no model may write it."""
    unk: int = 1
    """Stands for characters that no subword covers."""
    bos: int = 2
    """What the decoder is given before the first target subword; no model may write it."""
    eos: int = 3
    """Ends a source and a target sentence."""
