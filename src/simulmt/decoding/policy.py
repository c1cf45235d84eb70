"""Policies decide *after* the decoder has drafted a continuation how much of it is written.

A model drafts the rest of its translation from the source that has been read. A policy commits
whole words of the draft, and the rest is drafted again after the next read. Written words stay.
Once the source has ended, the whole draft is written and no policy is asked.

There are two kinds. A `SubwordPolicy` halts at a subword: it needs only this subword, so a draft
may stop there. A `DraftPolicy` commits a number of words of the newest draft, and may compare it
with earlier ones.

A policy is a pure function of the counts of a sentence and of its drafts, so a sentence gets the
same decisions in a batch and alone. A clock and schedules, which decide earlier, work inside the
drafts.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import ClassVar, NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from simulmt.attention import Mechanism
from simulmt.models.vocabulary import Vocabulary

Word = tuple[int, ...]
"""The subwords of a target word."""
TWO_THIRDS = 0
"""In `Demands.layer`, the layer at two thirds of the decoder, such as the fourth of six."""


class Counts(NamedTuple):
    """How much of a sentence, whose source has not ended, is read and written."""

    words_read: int
    subwords_read: int
    words_written: int


class Subword(NamedTuple):
    """What a model predicts for one subword of a draft, after reading S source subwords."""

    token: int
    begins: bool
    """True if it begins a word."""
    probability: float
    """The model's. Where a word is known to begin, it is renormalised over the subwords that begin
    one: after written words, and at each word of a draft if the mechanism writes words."""
    confidence: float
    """The model's confidence in it; with `Demands.overrules`, the readiness of the heads to stop
    before it. NaN if the model has none."""
    attention: Float[np.ndarray, "S"]
    """Attention to the source that has been read, averaged over the heads of `Demands.layer`; it
    sums to 1. Empty if the policy demands no layer."""
    positions: list[int]
    """Where the heads stood."""
    distribution: Float[np.ndarray, "V"]
    """The probability of each token. Empty unless the policy demands it."""


@dataclass(frozen=True, eq=False)
class Draft:
    """The continuation that a model would write if it read no more.

    Attributes:
        written: The words that were written before.
        words: The words of the draft that may be written: those that another word follows. The
            model takes a prefix for a whole sentence, so the last word of a draft, often a full
            stop, comes too early.
        subwords: All subwords of the draft.
        ends: True if the last word is EOS, as in a stream: writing it ends the sentence.
    """

    written: tuple[Word, ...]
    words: tuple[Word, ...]
    subwords: tuple[Subword, ...]
    ends: bool = False

    @property
    def hypothesis(self) -> tuple[Word, ...]:
        """All whole words, including those written before."""
        return self.written + self.words


class Demands(NamedTuple):
    """What a policy demands of a model."""

    unmet: str = ""
    """Why the policy makes no sense for the mechanism; empty if it does."""
    dials: Mapping[str, float] = {}
    """The values of the model's dials, unless the user sets others."""
    layer: int | None = None
    """The decoder layer whose attention the policy uses, from 1, or `TWO_THIRDS`; None for none."""
    overrules: bool = False
    """True if the heads of the model do not decide: at each step they see all of the source that
    has been read, and their readiness to stop there is the confidence."""
    distribution: bool = False
    """True if the policy uses the probabilities of all tokens."""

    unsuited: str = ""
    """Why the policy, although possible, is not meant for the mechanism; empty if it is."""

    def layer_of(self, layers: int) -> int | None:
        """The number of the layer, in a decoder of `layers` layers that attend to the source."""
        return -(-2 * layers // 3) if self.layer == TWO_THIRDS else self.layer

    def misfit(self, layers: int) -> str:
        """Why the policy makes no sense for a model with `layers` such layers; empty if it does."""
        if self.layer is None or self.layer <= layers:
            return self.unmet
        return (
            f"policy.layer={self.layer}, but {layers} layers of the model attend to the source: "
            f"set it from 1 to {layers}, or leave it out"
        )


class Policy(ABC):
    """Commits words of drafts. Derive from `SubwordPolicy` or `DraftPolicy`."""

    revises: ClassVar[bool] = False
    """True if drafts are shown, which later ones may take back."""

    @property
    def beams(self) -> bool:
        """True if drafts may come from a beam search, False if they must be greedy."""
        return False

    @property
    def ends(self) -> bool:
        """False if the last word of a draft, such as EOS in a stream, is never written."""
        return True

    @property
    def past(self) -> int:
        """The number of earlier drafts that `commit` compares with the newest."""
        return 0

    def demands(self, mechanism: Mechanism) -> Demands:
        """What the policy demands of a model with this mechanism: nothing, unless overridden."""
        return Demands()

    def on(
        self, sources: Sequence[str], words: Callable[[str], Sequence[int]]
    ) -> Sequence["Policy"]:
        """The policy of each sentence of a text; the same one, unless it knows the text.

        Args:
            sources: the sentences.
            words: the word of each subword of a sentence, from 1.
        """
        return [self] * len(sources)

    @property
    def steps(self) -> Sequence[int] | None:
        """The source subwords to read before each step of the model, EOS included; None to draft.

        Such a policy only says when the model takes its own steps.
        """
        return None

    def most(self, counts: Counts) -> int | None:
        """The most words that may be committed now, so that no more are drafted; None for all."""
        return None

    def halts(self, counts: Counts, word: int, subword: Subword) -> bool:
        """True if neither this subword nor what follows is written, so that the draft may end.

        Args:
            counts: of the sentence; its source has not ended.
            word: the number of the subword's word in the draft, from 0.
            subword: the model's prediction.
        """
        return False

    @abstractmethod
    def commit(self, counts: Counts, drafts: Sequence[Draft]) -> int:
        """The number of words of the newest draft that are written.

        Args:
            counts: of the sentence; its source has not ended.
            drafts: the newest draft last, before it up to `past` earlier ones.
        """


class SubwordPolicy(Policy):
    """Writes the words before the first subword at which it halts.

    A concrete policy defines `most` or `halts` or both, and `demands` if it demands anything.
    """

    def commit(self, counts: Counts, drafts: Sequence[Draft]) -> int:
        """The number of words before the policy halts."""
        draft, word = drafts[-1], -1
        for subword in draft.subwords:
            word += subword.begins
            if self.halts(counts, word, subword):
                return word
        return len(draft.words)


class DraftPolicy(Policy):
    """Writes a number of words of whole drafts, of any model.

    A concrete policy defines `commit`, and `past` if it compares drafts.
    """

    beams = True

    def demands(self, mechanism: Mechanism) -> Demands:
        """Nothing, although a policy that writes drafts early is for models of whole sentences."""
        return Demands(unsuited="" if self.revises else for_whole_sentences(mechanism))


def for_whole_sentences(mechanism: Mechanism) -> str:
    """Why a policy for models of whole sentences does not suit a mechanism; empty if it does."""
    if mechanism.offline:
        return ""
    decides = f"mechanism={mechanism.name} decides by itself when to read"
    return f"{decides}, and the policy is for models trained on whole sentences: use policy=own"


def common_length(sequences: Sequence[Sequence[object]]) -> int:
    """The length of the longest beginning that all sequences share."""
    together = zip(*sequences, strict=False)
    return sum(1 for _ in takewhile(lambda column: len({*column}) == 1, together))


def likeliest(logits: Float[Tensor, "B V"], vocabulary: Vocabulary) -> Int[Tensor, "B"]:
    """The likeliest token that may be written: any token except PAD and BOS."""
    logits = logits.clone()
    logits[:, [vocabulary.pad, vocabulary.bos]] = -torch.inf
    return logits.argmax(-1)
