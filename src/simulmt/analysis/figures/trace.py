"""The trace of a translated sentence, for pictures: subwords, delays, positions, attention."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Literal

import numpy as np
import torch
from jaxtyping import Float

from simulmt.data.tokenizer import Tokenizer
from simulmt.decoding.forced import forced_steps, word_weights
from simulmt.decoding.greedy import greedy
from simulmt.decoding.hypothesis import Hypothesis
from simulmt.decoding.word_map import WordMap
from simulmt.models.model import Model


@dataclass(frozen=True, eq=False)
class Trace:
    """The translation of one sentence: T units written, S source units with EOS the last.

    Units are subwords, or after `in_words` words.
    """

    line: int
    """Number of the sentence's line, from 1."""
    source: tuple[str, ...]
    """The source's units; EOS reads `</s>`."""
    target: tuple[str, ...]
    """The units written, without EOS."""
    source_words: tuple[int, ...]
    """The word of each source unit, from 1; EOS is a separate word."""
    target_words: tuple[int, ...]
    """The word of each target unit, from 1."""
    delays: tuple[int, ...]
    """Number of source units read, EOS included, before each target unit was written."""
    end: int
    """Number of source units read, EOS included, when the translation ended."""
    positions: tuple[tuple[int, ...], ...]
    """For each target unit, where every head of every layer stopped, from 1; 0 for a head
    that has run off the end. Empty for mechanisms that read the whole sentence first."""
    weights: Float[np.ndarray, "T L H S"]
    """Attention to the source at each target unit, for each layer that attends to the source."""
    unit: Literal["word", "subword"] = "subword"

    @property
    def stops(self) -> bool:
        """True if the positions of the heads are known."""
        return len(self.positions) == len(self.target) > 0

    def steps(self) -> Iterator[tuple[int, int]]:
        """Yield the numbers of source units read and target units written, from (0, 0).

        A step reads, or writes, units of one word without interruption.
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

    def in_words(self) -> "Trace":
        """Return the same sentence in words; EOS is a source word.

        A word is read once one of its subwords has been read, and written with its last subword,
        where its heads stand. Its attention is the mean over its subwords; the attention to a
        source word is the sum over the subwords of that one, so that the sums of rows remain.
        """
        # the opening tokens of an empty sentence have word 0
        source = WordMap(max(word, 1) for word in self.source_words)
        target = WordMap(self.target_words)
        columns: list[list[str]] = [[] for _ in range(max(source))]  # a word may have no piece
        for piece, word in zip(self.source, source, strict=True):
            columns[word - 1].append(piece)
        rows = target.grouped(self.target)
        written, signs = tuple(map(_text, rows)), "".join(map(_text, rows))
        if not all(written) and len(signs) == len(rows):  # characters, several in a subword
            written = tuple(signs)
        return replace(
            self,
            source=tuple(map(_text, columns)),
            target=written,
            source_words=tuple(range(1, len(columns) + 1)),
            target_words=tuple(range(1, len(rows) + 1)),
            delays=target.delays(self.delays, source),
            end=source.at(self.end),
            positions=target.stops(self.positions, source) if self.stops else (),
            weights=word_weights(self.weights, source, target),
            unit="word",
        )


def _text(pieces: Sequence[str]) -> str:
    return "".join(pieces).replace("▁", " ").strip()


def trace_sentence(
    model: Model, subwords: Tokenizer, device: torch.device, text: str, line: int = 1
) -> Trace:
    """Return the trace of a greedy translation of a sentence, which may be empty.

    Args:
        model: in evaluation mode, on `device`.
        subwords: the vocabulary of the model.
        device: where the model is.
        text: the source sentence.
        line: number of the sentence's line, for the picture's title.
    """
    source = subwords.encode_source(text)
    hypothesis, end, weights = trace_tokens(model, [*source, model.vocabulary.eos], device)
    touched = subwords.source_words(text)
    return Trace(
        line=line,
        source=(*subwords.pieces(source), "</s>"),
        target=tuple(subwords.pieces(hypothesis.tokens)),
        source_words=(*touched, max(touched, default=0) + 1),
        target_words=subwords.target_words(hypothesis.tokens),
        delays=tuple(hypothesis.delays),
        end=end,
        positions=() if model.mechanism.offline else tuple(map(tuple, hypothesis.positions)),
        weights=weights,
    )


@torch.inference_mode()
def trace_tokens(
    model: Model, source: Sequence[int], device: torch.device
) -> tuple[Hypothesis, int, Float[np.ndarray, "T L H S"]]:
    """Return the greedy translation of one sentence in ids, with its attention.

    A second, forced pass of the decoder yields the attention, so that batches need not keep it.

    Args:
        model: in evaluation mode, on `device`.
        source: subwords, EOS last.
        device: where the model is.

    Returns:
        The translation, the number of source tokens read, EOS included, when it ended, and the
        attention.
    """
    ids = torch.tensor([source], device=device)
    mask = torch.ones_like(ids, dtype=torch.bool)
    (hypothesis,) = greedy(model, ids, mask)
    bos, eos = [model.vocabulary.bos], [model.vocabulary.eos]
    target_input = torch.tensor([bos + hypothesis.tokens], device=device)
    target = torch.tensor([hypothesis.tokens + eos], device=device)
    steps = [*forced_steps(model, model.encode(ids, mask), target_input, target)]
    weights = torch.stack([torch.stack(step.weights, 1)[0] for step in steps])  # (T + 1, L, H, S)
    # the last step ends the translation
    return hypothesis, int(steps[-1].read), weights[:-1].double().cpu().numpy()
