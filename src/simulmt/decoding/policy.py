"""Policies that decide *after* a step, from what the model says, whether to read or to write.

A policy looks at a step of the decoder and at how far each sentence is. It keeps nothing, so a
sentence in a batch gets the decisions that it gets alone. Clocks and schedules have decided before:
they reach a policy as the step's `wants_to_read`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from simulmt.models.model import DecoderStep
from simulmt.vocabulary import Vocabulary


class Progress(NamedTuple):
    """How far each of B sentences is."""

    read: Int[Tensor, "B"]
    """Source tokens at hand, EOS included."""
    finished: Bool[Tensor, "B"]
    """Whether EOS is among them."""
    written: Int[Tensor, "B"]
    """Target tokens committed."""


class Decision(NamedTuple):
    """What to do next, for each of B sentences."""

    reads: Bool[Tensor, "B"]
    """Read another source token, and take the step again."""
    ends: Bool[Tensor, "B"]
    """End the translation. A row that neither reads nor ends writes its token."""
    token: Int[Tensor, "B"]


class Policy(ABC):
    """Decides between reading and writing."""

    @abstractmethod
    def decide(self, vocabulary: Vocabulary, progress: Progress, said: DecoderStep) -> Decision:
        """Read, write or end; a pure function.

        Args:
            vocabulary: the model's.
            progress: how far each sentence is.
            said: the model's step on what was read and written.
        """


def likeliest(logits: Float[Tensor, "B V"], vocabulary: Vocabulary) -> Int[Tensor, "B"]:
    """The likeliest token that may be written; EOS may."""
    logits = logits.clone()
    logits[:, [vocabulary.pad, vocabulary.bos]] = -torch.inf
    return logits.argmax(-1)


def length_limit(read: Int[Tensor, "B"]) -> Int[Tensor, "B"]:
    """The most subwords that may be written on `read` source tokens.

    The limit depends on what was read alone, so that a stream stops where a batch does.
    """
    return 2 * read + 20
