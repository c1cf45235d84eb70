"""Greedy simultaneous decoding of whole batches (MMA, Ma et al. 2020, Algorithm 1).

With a causal encoder the states of a prefix do not depend on what follows. Decoding against the
whole encoded source, each head attending only up to where it stands, therefore gives exactly the
tokens and delays of streaming, for a batch at once.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from simulmt.data.subwords import BOS, EOS, PAD
from simulmt.models.model import Model, select


class Hypothesis(NamedTuple):
    """What was written for one sentence, and when."""

    tokens: list[int]
    """Subwords, without EOS."""
    delays: list[int]
    """Source tokens read, EOS included, before each subword was written."""
    positions: list[list[int]]
    """For each subword, where every head of every layer stood."""


def length_limit(read: Int[Tensor, "B"]) -> Int[Tensor, "B"]:
    """The most subwords that may have been written once `read` source tokens are.

    It depends on what was read alone, so that streaming stops where a batch does.
    """
    return 2 * read + 20


def next_token(logits: Float[Tensor, "B V"]) -> Int[Tensor, "B"]:
    """The likeliest token that may be written."""
    logits = logits.clone()
    logits[:, [PAD, BOS]] = -torch.inf
    return logits.argmax(-1)


@torch.inference_mode()
def greedy(model: Model, source: Int[Tensor, "B S"], mask: Bool[Tensor, "B S"]) -> list[Hypothesis]:
    """Translate a batch simultaneously.

    Args:
        model: a model in evaluation mode.
        source: token ids, EOS last, padded on the right.
        mask: True for real tokens.

    Returns:
        One hypothesis per row, in the rows' order.
    """
    finished = torch.ones_like(mask[:, 0])
    state = model.start(model.encode(source, mask), mask, finished)
    written = [Hypothesis([], [], []) for _ in range(len(source))]
    rows = torch.arange(len(source), device=source.device)
    token = torch.full_like(source[:, 0], BOS)
    count = 0
    while len(rows):
        step = model.step(token, state)
        token = next_token(step.logits)
        count += 1
        goes_on = (token != EOS) & (count <= length_limit(step.read))
        token, rows, state = token[goes_on], rows[goes_on], step.state
        if not goes_on.all():
            state = select(state, goes_on)
        delays, positions = step.read[goes_on].tolist(), step.positions[goes_on].tolist()
        for row, new, delay, stood in zip(
            rows.tolist(), token.tolist(), delays, positions, strict=True
        ):
            written[row].tokens.append(new)
            written[row].delays.append(delay)
            written[row].positions.append(stood)
    return written
