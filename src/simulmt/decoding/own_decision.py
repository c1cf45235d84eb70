"""The model's own decision: its clock or its schedules decide when to read (MMA, Algorithm 1)."""

from typing import NamedTuple

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from simulmt.attention.state import State, either
from simulmt.decoding.policy import likeliest
from simulmt.models.model import Model
from simulmt.models.results import DecoderStep


class Decision(NamedTuple):
    """The next action for each of B sentences."""

    reads: Bool[Tensor, "B"]
    """Read another source token, and take the step again."""
    ends: Bool[Tensor, "B"]
    """End the translation. A row that neither reads nor ends writes `token`."""
    token: Int[Tensor, "B"]


def next_step(
    model: Model,
    token: Int[Tensor, "B"],
    state: State,
    begins: Bool[Tensor, "B"] | None = None,
    goes_on: Bool[Tensor, "B"] | None = None,
) -> DecoderStep:
    """The model's next target step.

    If the mechanism writes words, a word has one read length, and only the next subword shows that
    it has ended (Kim & Cho 2023). So the step is first taken where the heads stand. If it would
    begin a word, it is taken again with the heads free to read on; then it does begin a word.

    Args:
        model: in evaluation mode.
        token: the last one written, or BOS.
        state: the decoder's state before the step.
        begins: True where a word is known to begin, as after a step that has waited for a read.
        goes_on: True where the word is known to go on.
    """
    if not model.mechanism.writes_words:
        return model.step(token, state)
    bos = token == model.vocabulary.bos
    begins = bos if begins is None else begins | bos
    if begins.all():
        return _new_word(model, token, state)
    inside = model.step(token, state, torch.zeros_like(begins))
    likely = model.begins[likeliest(inside.logits, model.vocabulary)]
    begins = begins | (likely if goes_on is None else likely & ~goes_on)
    return either(begins, _new_word(model, token, state), inside) if begins.any() else inside


def _new_word(model: Model, token: Int[Tensor, "B"], state: State) -> DecoderStep:
    step = model.step(token, state, torch.ones_like(token, dtype=torch.bool))
    return step._replace(logits=step.logits.masked_fill(~model.begins, -torch.inf))


def decide(model: Model, step: DecoderStep, written: Int[Tensor, "B"]) -> Decision:
    """The next action: read while the clock or a head waits, then write the likeliest token.

    Args:
        model: in evaluation mode.
        step: the decoder's step after the tokens read and written.
        written: number of target tokens written.
    """
    token = likeliest(step.logits, model.vocabulary)
    full = written >= model.length_limit(step.read)
    ends = ((token == model.vocabulary.eos) | full) & ~step.wants_to_read
    return Decision(step.wants_to_read, ends, token)
