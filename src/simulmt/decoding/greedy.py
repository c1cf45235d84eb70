"""Greedy simultaneous decoding of whole batches (MMA, Ma et al. 2020, Algorithm 1).

With a causal encoder the states of a prefix do not depend on later tokens. So greedy decoding runs
on the whole encoded source, with each head attending only to tokens that it has read: a batch gets
exactly the tokens and delays of streaming.
"""

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from simulmt.decoding.hypothesis import Hypothesis
from simulmt.decoding.policies import OWN
from simulmt.decoding.policy import Policy, Progress
from simulmt.models.model import Model, select


@torch.inference_mode()
def greedy(
    model: Model,
    source: Int[Tensor, "B S"],
    mask: Bool[Tensor, "B S"],
    policy: Policy = OWN,
) -> list[Hypothesis]:
    """Translate a batch of sentences simultaneously.

    Args:
        model: a model in evaluation mode.
        source: token ids, EOS last, padded on the right.
        mask: True for real tokens.
        policy: decides between reading and writing. The whole source is available, so the delays
            are those of the model's own heads or clock.

    Returns:
        One hypothesis per row, in the rows' order.
    """
    encoded = model.encode(source, mask)
    state = model.start(encoded)
    hypotheses = [Hypothesis([], [], []) for _ in range(len(source))]
    rows = torch.arange(len(source), device=source.device)
    token = torch.full_like(source[:, 0], model.vocabulary.bos)
    progress = Progress(mask.sum(1), encoded.finished, torch.zeros_like(rows))
    while len(rows):
        step = model.step(token, state)
        decision = policy.decide(model.vocabulary, progress, step)
        continues = ~decision.ends
        token, rows, state = decision.token[continues], rows[continues], step.state
        progress = progress._replace(written=progress.written + 1)
        if not continues.all():
            state, progress = select((state, progress), continues)
        delays, positions = step.read[continues].tolist(), step.positions[continues].tolist()
        for row, *written in zip(rows.tolist(), token.tolist(), delays, positions, strict=True):
            hypotheses[row].write(*written)
    return hypotheses
