"""The model's own decision: its clock or its schedules decide when to read (MMA, Algorithm 1)."""

from collections.abc import Callable
from typing import NamedTuple, TypeAlias

from jaxtyping import Bool, Int
from torch import Tensor

from simulmt.decoding.policy import length_limit, likeliest
from simulmt.models.model import DecoderStep
from simulmt.vocabulary import Vocabulary

LengthLimit: TypeAlias = Callable[[Int[Tensor, "B"]], Int[Tensor, "B"]]
"""The most subwords that may be written after so many source tokens."""


class Decision(NamedTuple):
    """The next action for each of B sentences."""

    reads: Bool[Tensor, "B"]
    """Read another source token, and take the step again."""
    ends: Bool[Tensor, "B"]
    """End the translation. A row that neither reads nor ends writes `token`."""
    token: Int[Tensor, "B"]


def decide(
    vocabulary: Vocabulary,
    step: DecoderStep,
    written: Int[Tensor, "B"],
    limit: LengthLimit | None = None,
) -> Decision:
    """Read while the clock or a head wants to read, then write the likeliest token.

    Args:
        vocabulary: the vocabulary of the model.
        step: the decoder's step after the tokens read and written.
        written: number of target tokens written.
        limit: ends a translation that does not end by itself; None for `length_limit`.
    """
    token = likeliest(step.logits, vocabulary)
    full = written >= (limit or length_limit)(step.read)
    ends = ((token == vocabulary.eos) | full) & ~step.wants_to_read
    return Decision(step.wants_to_read, ends, token)
