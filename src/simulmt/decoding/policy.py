"""Policies decide *after* the decoder has drafted a continuation how much of it is written.

A model drafts the rest of its translation on what has been read. A policy commits whole words of
the draft, and the rest is drafted again after the next read. What is written stays. When the source
has ended, all of the draft is written without asking.

A policy is a pure function of the progress of a sentence and of its drafts, so a sentence gets the
same decisions in a batch and alone. A clock and schedules, which decide earlier, work inside the
drafts.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Int
from numpy.typing import NDArray
from torch import Tensor

from simulmt.attention import Mechanism
from simulmt.models.vocabulary import Vocabulary

Word = tuple[int, ...]
"""The subwords of a target word."""


class Progress(NamedTuple):
    """How much of a sentence, whose source has not ended, is read and written."""

    words_read: int
    subwords_read: int
    words_written: int


class Subword(NamedTuple):
    """What a model says of one subword of a draft, after reading S source subwords."""

    token: int
    begins: bool
    """Whether it begins a word."""
    probability: float
    confidence: float
    """How sure the model is of it, or how sure its heads are to stop before it
    (`Policy.overrules`); not a number if the model does not say."""
    attention: Float[NDArray[np.float64], "S"]
    """Attention to what is read, averaged over the heads of one decoder layer; it sums to 1. Empty
    if no policy looks at it."""
    positions: list[int]
    """Where the heads stood."""


@dataclass(frozen=True, eq=False)
class Draft:
    """The continuation that a model would write if it read no more.

    Attributes:
        written: The words that were written before.
        words: The words of the draft that may be written: those that another word follows. A prefix
            looks like a whole sentence, so its last word, with a full stop, comes too early.
        subwords: All subwords of the draft, without EOS.
    """

    written: tuple[Word, ...]
    words: tuple[Word, ...]
    subwords: tuple[Subword, ...]

    @property
    def hypothesis(self) -> tuple[Word, ...]:
        """All whole words, those written before among them."""
        return self.written + self.words


class Policy:
    """Commits words of drafts: by `most`, by `halts`, or by `commit`."""

    drafts: ClassVar[bool] = True
    """Whether whole drafts are looked at, so that they may come from a beam search; otherwise the
    decisions are those of greedy steps."""
    revises: ClassVar[bool] = False
    """Whether drafts are shown, which later ones may take back."""
    overrules: ClassVar[bool] = False
    """Whether the heads of a model do not decide: each step sees all that is read, and says how
    sure the heads are to stop there."""

    @property
    def past(self) -> int:
        """The number of earlier drafts that `commit` looks at."""
        return 0

    def most(self, progress: Progress) -> int | None:
        """The most words that may be committed now, so that no more are drafted; None for all."""
        return None

    def halts(self, progress: Progress, word: int, subword: Subword) -> bool:
        """Whether this subword, and what follows it, is not written, so that the draft may end.

        Args:
            progress: of the sentence; its source has not ended.
            word: the number of the subword's word in the draft, from 0.
            subword: what the model says of it.
        """
        return False

    def commit(self, progress: Progress, drafts: Sequence[Draft]) -> int:
        """The number of words of the newest draft that are written: those before it `halts`.

        Args:
            progress: of the sentence; its source has not ended.
            drafts: the newest draft last, before it up to `past` earlier ones.
        """
        draft, word = drafts[-1], -1
        for subword in draft.subwords:
            word += subword.begins
            if self.halts(progress, word, subword):
                return word
        return len(draft.words)

    def model_dials(self, mechanism: Mechanism) -> Mapping[str, float]:
        """What a model's dials should be with this policy, if the user does not say."""
        return {}

    def misfit(self, mechanism: Mechanism, layers: int) -> str:
        """Why the policy makes no sense for a model; empty if it does.

        Args:
            mechanism: of the model.
            layers: the number of layers that attend to the source.
        """
        return ""

    def attends(self, layers: int) -> int | None:
        """The layer, from 1, whose attention is looked at, of so many; None for no attention."""
        return None


def likeliest(logits: Float[Tensor, "B V"], vocabulary: Vocabulary) -> Int[Tensor, "B"]:
    """The likeliest token that may be written: any token but PAD and BOS."""
    logits = logits.clone()
    logits[:, [vocabulary.pad, vocabulary.bos]] = -torch.inf
    return logits.argmax(-1)


def length_limit(read: Int[Tensor, "B"]) -> Int[Tensor, "B"]:
    """The largest number of subwords that may be written after `read` source tokens.

    The limit depends on `read` alone, so that a stream stops where a batch does.
    """
    return 2 * read + 20
