"""Streaming by definition: read a token, write all subwords that can be written, repeat.

`stream` is the reference for batched decoding. `stream` keeps only the prefix that has been read,
and encodes the prefix anew after every read: correct for every encoder, and slow.
`simulmt.decoding.incremental` streams at the cost of the new tokens alone.
"""

from collections.abc import Iterable, Sequence

import torch

from simulmt.decoding.hypothesis import Hypothesis
from simulmt.decoding.own_decision import Decision, LengthLimit, decide
from simulmt.models.model import DecoderStep, Model, State

CPU = torch.device("cpu")


@torch.inference_mode()
def stream(
    model: Model,
    source: Iterable[int],
    device: torch.device = CPU,
    limit: LengthLimit | None = None,
) -> Hypothesis:
    """Translate one sentence whose subwords arrive one by one.

    Args:
        model: a model in evaluation mode.
        source: the subwords; `stream` takes the next one only when it reads. EOS follows the last
            one, whether `source` yields EOS or not.
        device: where the model is.
        limit: ends a translation that does not end by itself; None for `length_limit`.

    Returns:
        The translation; each delay counts the subwords taken from `source` until then.
    """
    arriving, eos = iter(source), model.vocabulary.eos
    prefix, written = [next(arriving, eos)], Hypothesis([], [], [])
    state = replay(model, prefix, written.tokens, device)
    while True:
        step, decision = next_step(model, state, written, device, limit)
        if decision.reads:
            prefix.append(next(arriving, eos))
            state = replay(model, prefix, written.tokens, device)
        elif decision.ends:
            return written
        else:
            written.write(int(decision.token), len(prefix), step.positions[0].tolist())
            state = step.state


def next_step(
    model: Model,
    state: State,
    written: Hypothesis,
    device: torch.device,
    limit: LengthLimit | None = None,
) -> tuple[DecoderStep, Decision]:
    """The decoder's next step for one sentence, as a batch of one, and what the model decides."""
    last = [model.vocabulary.bos, *written.tokens][-1:]
    step = model.step(torch.tensor(last, device=device), state)
    count = torch.tensor([len(written.tokens)], device=device)
    return step, decide(model.vocabulary, step, count, limit)


def replay(
    model: Model, prefix: Sequence[int], tokens: Sequence[int], device: torch.device
) -> State:
    """The decoder before its next step, after a prefix has been read and tokens written."""
    source = torch.tensor([[*prefix]], device=device)
    mask = torch.ones_like(source, dtype=torch.bool)
    encoded = model.encode(source, mask)
    state = model.start(encoded._replace(finished=source[:, -1] == model.vocabulary.eos))
    for token in [model.vocabulary.bos, *tokens][:-1]:
        state = model.step(torch.tensor([token], device=device), state).state
    return state
