"""Greedy simultaneous decoding of whole batches (MMA, Ma et al. 2020, Algorithm 1).

With a causal encoder the states of a prefix do not depend on later tokens. So greedy decoding runs
on the whole encoded source, with each head attending only to tokens that it has read: a batch gets
exactly the tokens and delays of streaming.
"""

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from simulmt.attention.state import select
from simulmt.decoding.hypothesis import Hypothesis
from simulmt.decoding.own_decision import LengthLimit, decide, next_step
from simulmt.models.model import Model


@torch.inference_mode()
def greedy(
    model: Model,
    source: Int[Tensor, "B S"],
    mask: Bool[Tensor, "B S"],
    limit: LengthLimit | None = None,
) -> list[Hypothesis]:
    """Translate a batch of sentences simultaneously.

    Args:
        model: a model in evaluation mode.
        source: token ids, EOS last, padded on the right.
        mask: True for real tokens.
        limit: ends a translation that does not end by itself; None for `length_limit`.

    Returns:
        One hypothesis per row, in the rows' order.
    """
    state = model.start(model.encode(source, mask))
    hypotheses = [Hypothesis([], [], []) for _ in range(len(source))]
    rows = torch.arange(len(source), device=source.device)
    token = torch.full_like(source[:, 0], model.vocabulary.bos)
    written = torch.zeros_like(rows)
    while len(rows):
        step = next_step(model, token, state)
        decision = decide(model.vocabulary, step, written, limit)
        continues = ~decision.ends
        token, rows, state = decision.token[continues], rows[continues], step.state
        written = written[continues] + 1
        if not continues.all():
            state = select(state, continues)
        delays, positions = step.read[continues].tolist(), step.positions[continues].tolist()
        for row, *subword in zip(rows.tolist(), token.tolist(), delays, positions, strict=True):
            hypotheses[row].write(*subword)
    return hypotheses
