"""Streaming, as a listener gets it: read a token, write what can be written.

This is the definition that batched decoding is held against: it holds nothing but the prefix that
was read, which it encodes anew after every read. That is right for every encoder, and slow.
"""

from __future__ import annotations

from collections.abc import Iterable

import torch

from simulmt.data.subwords import BOS, EOS
from simulmt.decoding.greedy import Hypothesis, length_limit, next_token
from simulmt.models.model import Model, State

_CPU = torch.device("cpu")


@torch.inference_mode()
def stream(model: Model, source: Iterable[int], device: torch.device = _CPU) -> Hypothesis:
    """Translate one sentence whose subwords arrive one by one.

    Args:
        model: a model in evaluation mode.
        source: the subwords; the next one is asked for only when it is wanted. EOS follows the
            last one, given or not.
        device: where the model is.

    Returns:
        What was written; each delay counts the subwords asked for until then.
    """
    arriving = iter(source)
    prefix = [next(arriving, EOS)]
    written = Hypothesis([], [], [])
    state = replay(model, prefix, written.tokens, device)
    while True:
        step = model.step(torch.tensor([[BOS, *written.tokens][-1]], device=device), state)
        if step.wants_to_read:
            prefix.append(next(arriving, EOS))
            state = replay(model, prefix, written.tokens, device)
            continue
        token = int(next_token(step.logits))
        if token == EOS or len(written.tokens) + 1 > int(length_limit(step.read)):
            return written
        written.tokens.append(token)
        written.delays.append(len(prefix))
        written.positions.append(step.positions[0].tolist())
        state = step.state


def replay(model: Model, prefix: list[int], tokens: list[int], device: torch.device) -> State:
    """The decoder that has read the prefix and written the tokens, its last step to be taken."""
    source = torch.tensor([prefix], device=device)
    mask = torch.ones_like(source, dtype=torch.bool)
    state = model.start(model.encode(source, mask), mask, source[:, -1] == EOS)
    for token in [BOS, *tokens][:-1]:
        state = model.step(torch.tensor([token], device=device), state).state
    return state
