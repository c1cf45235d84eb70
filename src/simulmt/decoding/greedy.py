"""Greedy simultaneous decoding of whole batches (MMA, Ma et al. 2020, Algorithm 1).

With a causal encoder the states of a prefix do not depend on later tokens. So greedy decoding runs
on the whole encoded source, with each head attending only to tokens that it has read: a batch gets
exactly the tokens and delays of streaming.
"""

from collections.abc import Sequence

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from simulmt.attention.memory import ends_from
from simulmt.attention.state import select
from simulmt.decoding.hypothesis import Hypothesis
from simulmt.decoding.own_decision import decide, next_step
from simulmt.errors import UserError
from simulmt.models.model import Model


@torch.inference_mode()
def greedy(
    model: Model,
    source: Int[Tensor, "B S"],
    mask: Bool[Tensor, "B S"],
    steps: Sequence[Sequence[int]] | None = None,
) -> list[Hypothesis]:
    """Translate a batch of sentences simultaneously.

    Args:
        model: a model in evaluation mode.
        source: token ids, EOS last, padded on the right.
        mask: True for real tokens.
        steps: for each row, the number of source tokens read before each of its steps; before any
            later step all are read. None for the model's own decision. The mechanism still decides
            where its heads stand within what has been read.

    Returns:
        One hypothesis per row, in the rows' order.

    Raises:
        UserError: `steps` for a model whose encoder is not causal.
    """
    if steps is not None and not model.causal:
        raise UserError(
            "policy.unit=subword needs a causal encoder, and that of the model sees the whole "
            "sentence: choose policy.unit=word"
        )
    reads = None if steps is None else forced(steps, mask)
    if reads is not None and model.reads_words:
        reads = ends_from(model.word_ends(source, mask)).gather(1, reads - 1)
    state = model.start(model.encode(source, mask))
    hypotheses = [Hypothesis([], [], []) for _ in range(len(source))]
    rows = torch.arange(len(source), device=source.device)
    token = torch.full_like(source[:, 0], model.vocabulary.bos)
    written = torch.zeros_like(rows)
    while len(rows):
        if reads is not None:
            read = reads[rows, written.clamp(max=reads.shape[1] - 1)]
            never_waits = torch.ones_like(read, dtype=torch.bool)
            if model.mechanism.several_states:  # those that read more are computed once they have
                never_waits = read == mask.sum(1)[rows]
            state = model.seen(state, read, never_waits)
        step = next_step(model, token, state)
        decision = decide(model, step, written)
        kept = (~decision.ends).nonzero()[:, 0]  # once, since a GPU waits for it
        token, state = decision.token[kept], step.state
        if len(kept) < len(rows):
            state = select(state, kept)
        rows, written = rows[kept], written[kept] + 1
        delay = step.read if reads is None else read
        delays, positions = delay[kept].tolist(), step.positions[kept].tolist()
        for row, *subword in zip(rows.tolist(), token.tolist(), delays, positions, strict=True):
            hypotheses[row].write(*subword)
    return hypotheses


def forced(steps: Sequence[Sequence[int]], mask: Bool[Tensor, "B S"]) -> Int[Tensor, "B T"]:
    """The source tokens read before each step, from 1 to all; in the last column all of them."""
    length = mask.sum(1)
    rows = [torch.tensor([*row], dtype=torch.long, device=mask.device) for row in steps]
    reads = torch.nn.utils.rnn.pad_sequence([*rows, length[:0]], True, mask.shape[1])[:-1]
    reads = torch.cat([reads, length[:, None]], 1)
    return reads.clamp(min=1).minimum(length[:, None])
