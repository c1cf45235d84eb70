"""The trace of one translated sentence, for pictures: subwords, delays, positions, attention."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float
from numpy.typing import NDArray

from simulmt.data.subwords import Subwords
from simulmt.decoding.forced import forced_steps
from simulmt.decoding.greedy import greedy
from simulmt.decoding.hypothesis import Hypothesis
from simulmt.models.model import Model


@dataclass(frozen=True, eq=False)
class Trace:
    """The translation of one sentence: T subwords written, S source subwords with EOS the last."""

    line: int
    """Number of the sentence's line, from 1."""
    source: tuple[str, ...]
    """The source's subwords; EOS reads `</s>`."""
    target: tuple[str, ...]
    """The subwords written, without EOS."""
    source_words: tuple[int, ...]
    """The word of each source subword, from 1; EOS is a word of its own."""
    target_words: tuple[int, ...]
    """The word of each target subword, from 1."""
    delays: tuple[int, ...]
    """Number of source subwords read, EOS included, before each target subword was written."""
    end: int
    """Number of source subwords read, EOS included, when the translation ended."""
    positions: tuple[tuple[int, ...], ...]
    """For each target subword, where every head of every layer stopped, from 1; 0 for a head
    that has run off the end. Empty for mechanisms that read the whole sentence first."""
    weights: Float[NDArray[np.float64], "T L H S"]
    """Attention to the source at each target subword, for each layer that attends to the source."""

    @property
    def stops(self) -> bool:
        """Whether the positions of the heads are known."""
        return len(self.positions) == len(self.target) > 0

    def steps(self) -> Iterator[tuple[int, int]]:
        """Counts of source subwords read and target subwords written after each step, from (0, 0).

        A step reads, or writes, subwords of one word without interruption.
        """
        events, read = list[tuple[int, int]](), 0  # (0 to read or 1 to write, word)
        for word, delay in zip((*self.target_words, None), (*self.delays, self.end), strict=True):
            events += [(0, source_word) for source_word in self.source_words[read:delay]]
            events += [(1, word)] if word is not None else []
            read = max(read, delay)
        counts = [0, 0]
        yield 0, 0
        for (action, _), run in groupby(events):
            counts[action] += len([*run])
            yield counts[0], counts[1]


class Record(NamedTuple):
    """The translation of one sentence in ids, with its attention."""

    hypothesis: Hypothesis
    end: int
    """Number of source tokens read, EOS included, when the translation ended."""
    weights: Float[NDArray[np.float64], "T L H S"]


def trace_sentence(
    model: Model, subwords: Subwords, device: torch.device, text: str, line: int = 1
) -> Trace:
    """The trace of a greedy translation of a sentence, which may be empty.

    Args:
        model: in evaluation mode, on `device`.
        subwords: the vocabulary of the model.
        device: where the model is.
        text: the source sentence.
        line: number of the sentence's line, for the picture's title.
    """
    source = subwords.encode(text)
    hypothesis, end, weights = record(model, [*source, model.vocabulary.eos], device)
    touched = subwords.words_touched(source)
    return Trace(
        line=line,
        source=(*subwords.pieces(source), "</s>"),
        target=tuple(subwords.pieces(hypothesis.tokens)),
        source_words=(*touched, max(touched, default=0) + 1),
        target_words=tuple(subwords.words_touched(hypothesis.tokens)),
        delays=tuple(hypothesis.delays),
        end=end,
        positions=() if model.mechanism.offline else tuple(map(tuple, hypothesis.positions)),
        weights=weights,
    )


@torch.inference_mode()
def record(model: Model, source: Sequence[int], device: torch.device) -> Record:
    """The greedy translation of one sentence, with its attention.

    A second, forced pass of the decoder yields the attention, so that batches need not keep it.

    Args:
        model: in evaluation mode, on `device`.
        source: subwords, EOS last.
        device: where the model is.
    """
    ids = torch.tensor([source], device=device)
    mask = torch.ones_like(ids, dtype=torch.bool)
    (hypothesis,) = greedy(model, ids, mask)
    target_input = torch.tensor([[model.vocabulary.bos, *hypothesis.tokens]], device=device)
    steps = [*forced_steps(model, model.encode(ids, mask), target_input)]
    weights = torch.stack([torch.stack(step.weights, 1)[0] for step in steps])  # (T + 1, L, H, S)
    # the last step ends the translation
    return Record(hypothesis, int(steps[-1].read), weights[:-1].double().cpu().numpy())
