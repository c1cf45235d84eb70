"""Streaming by definition: read a token or a word, write all subwords that can be written, repeat.

`stream` is the reference for batched decoding. `stream` keeps only the prefix that has been read,
and encodes the prefix again after every read: correct for every encoder, and slow.
`simulmt.decoding.incremental` streams at the cost of the new tokens alone.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import takewhile

import torch

from simulmt.attention.state import State
from simulmt.decoding.forced import forced_steps
from simulmt.decoding.hypothesis import Hypothesis
from simulmt.decoding.own_decision import Decision, decide, next_step
from simulmt.models.model import Model
from simulmt.models.results import DecoderStep


@torch.inference_mode()
def stream(model: Model, source: Iterable[int]) -> Hypothesis:
    """Translate one sentence whose subwords arrive one by one.

    Args:
        model: a model in evaluation mode.
        source: the subwords; `stream` takes the next one only when it reads. EOS follows the last
            one, even if `source` does not yield EOS.

    Returns:
        The translation; each delay counts the subwords taken from `source` until then.
    """
    arriving, written = units(model, source), Hypothesis([], [], [])
    prefix, has_read = next(arriving), True
    state = replay(model, prefix, written)
    while True:
        step, decision = take_step(model, state, [written], has_read)
        has_read = bool(decision.reads)
        if decision.reads:
            prefix += next(arriving)
            state = replay(model, prefix, written)
        elif decision.ends:
            return written
        else:
            written.write(int(decision.token), len(prefix), step.positions[0].tolist())
            state = step.state


def units(model: Model, source: Iterable[int]) -> Iterator[list[int]]:
    """What a model reads at a time: tokens, or words, whose end the next token shows; then EOS."""
    eos = model.vocabulary.eos
    tokens = takewhile(lambda token: token != eos, source)
    if model.reads_words:
        yield from model.vocabulary.words(tokens)
    else:
        yield from ([token] for token in tokens)
    while True:
        yield [eos]


def take_step(
    model: Model, state: State, written: Sequence[Hypothesis], has_read: bool
) -> tuple[DecoderStep, Decision]:
    """The decoder's next step for each sentence, and what the model decides."""
    device = model.begins.device
    last = [one.tokens[-1] if one.tokens else model.vocabulary.bos for one in written]
    begins = torch.full((len(last),), has_read, device=device)
    step = next_step(model, torch.tensor(last, device=device), state, begins)
    counts = torch.tensor([len(one.tokens) for one in written], device=device)
    return step, decide(model, step, counts)


def replay(model: Model, prefix: Sequence[int], written: Hypothesis) -> State:
    """The decoder before its next step, after a prefix has been read and tokens written."""
    tokens = [model.vocabulary.bos, *written.tokens]
    source, target = (torch.tensor([x], device=model.begins.device) for x in ([*prefix], tokens))
    encoded = model.encode(source, torch.ones_like(source, dtype=torch.bool))
    encoded = encoded._replace(finished=source[:, -1] == model.vocabulary.eos)
    state: State = model.start(encoded)
    for step in forced_steps(model, encoded, target[:, :-1], target[:, 1:]):
        state = step.state
    return state
