"""Policies decide *after* a step of the decoder, from its result, whether to read or to write.

A policy sees the step and the progress of each sentence. A policy keeps no state, so a sentence
gets the same decisions in a batch and alone. Clocks and schedules decide earlier: their decision
reaches a policy as the step's `wants_to_read`.
"""

from abc import ABC, abstractmethod
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from simulmt.models.model import DecoderStep
from simulmt.vocabulary import Vocabulary


class Progress(NamedTuple):
    """The progress of B sentences."""

    read: Int[Tensor, "B"]
    """Number of source tokens available, EOS included."""
    finished: Bool[Tensor, "B"]
    """Whether EOS is among them."""
    written: Int[Tensor, "B"]
    """Number of target tokens written."""


class Decision(NamedTuple):
    """The next action for each of B sentences."""

    reads: Bool[Tensor, "B"]
    """Read another source token, and take the step again."""
    ends: Bool[Tensor, "B"]
    """End the translation. A row that neither reads nor ends writes `token`."""
    token: Int[Tensor, "B"]


class Policy(ABC):
    """Decides between reading and writing."""

    @abstractmethod
    def decide(self, vocabulary: Vocabulary, progress: Progress, step: DecoderStep) -> Decision:
        """Read, write or end: a pure function of its arguments.

        Args:
            vocabulary: the vocabulary of the model.
            progress: how much each sentence has read and written.
            step: the decoder's step after the tokens read and written.
        """


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
