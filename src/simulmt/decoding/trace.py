"""One sentence with all that can be seen of how it was translated: for pictures."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float
from numpy.typing import NDArray

from simulmt.data.subwords import Subwords
from simulmt.decoding.greedy import greedy
from simulmt.decoding.hypothesis import Hypothesis
from simulmt.models.model import Model


@dataclass(frozen=True, eq=False)
class Trace:
    """How one sentence was translated: T subwords written, S read, EOS the last of these."""

    line: int
    """The line that the sentence stands on, from 1."""
    source: tuple[str, ...]
    """The source's subwords; EOS reads `</s>`."""
    target: tuple[str, ...]
    """The subwords written, without EOS."""
    source_words: tuple[int, ...]
    """The word, from 1, that each source subword belongs to; EOS is one of its own."""
    target_words: tuple[int, ...]
    """The word, from 1, that each target subword belongs to."""
    delays: tuple[int, ...]
    """Source subwords read, EOS included, before each target subword was written."""
    end: int
    """Source subwords read, EOS included, when the translation was found to be complete."""
    positions: tuple[tuple[int, ...], ...]
    """For each target subword, where every head of every layer stopped, from 1; 0 once it has run
    off the end. Empty for attention that reads the whole sentence first and so stops nowhere."""
    weights: Float[NDArray[np.float64], "T L H S"]
    """Attention to the source of each head of the layers that attend, at each target subword."""

    @property
    def stops(self) -> bool:
        """Whether it is known where the heads stopped."""
        return len(self.positions) == len(self.target) > 0

    def steps(self) -> Iterator[tuple[int, int]]:
        """Source and target subwords read and written so far, word by word; (0, 0) comes first.

        Subwords of one word that were read, or written, in one go are one step.
        """
        events, read = list[tuple[int, int]](), 0  # 0 reads, 1 writes a subword; of which word
        for word, delay in zip((*self.target_words, None), (*self.delays, self.end), strict=True):
            events += [(0, source_word) for source_word in self.source_words[read:delay]]
            events += [(1, word)] if word is not None else []
            read = max(read, delay)
        done = [0, 0]
        yield 0, 0
        for (lane, _), run in groupby(events):
            done[lane] += len([*run])
            yield done[0], done[1]


class Record(NamedTuple):
    """What was written for one sentence, in ids, and where the heads looked meanwhile."""

    hypothesis: Hypothesis
    end: int
    """Source tokens read, EOS included, when the translation was found to be complete."""
    weights: Float[NDArray[np.float64], "T L H S"]


def trace_sentence(
    model: Model, subwords: Subwords, device: torch.device, text: str, line: int = 1
) -> Trace:
    """Translate a sentence greedily and record how; it may be empty.

    Args:
        model: in evaluation mode, on `device`.
        subwords: its vocabulary.
        device: where the model is.
        text: the source sentence.
        line: where it stands, for its title.
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
    """Translate one sentence greedily and look on.

    What was written is taken a second time through the decoder, which does the same again: so the
    attention is kept only here, and batches do without it.

    Args:
        model: in evaluation mode, on `device`.
        source: subwords, EOS last.
        device: where the model is.
    """
    ids = torch.tensor([source], device=device)
    mask = torch.ones_like(ids, dtype=torch.bool)
    (hypothesis,) = greedy(model, ids, mask)
    state = model.start(model.encode(ids, mask))
    weights = []
    for token in [model.vocabulary.bos, *hypothesis.tokens]:
        step = model.step(torch.tensor([token], device=device), state)
        state = step.state
        weights.append(torch.stack(step.weights, 1)[0].double().cpu().numpy())  # (L, H, S)
    return Record(hypothesis, int(step.read), np.stack(weights)[:-1])  # the last step wrote no more
