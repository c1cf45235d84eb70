"""One decoded sentence, with its delays."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

from simulmt.decoding.word_map import WordMap
from simulmt.decoding.writing import WORDS, Writing, unspaced


@dataclass(frozen=True)
class Instance:
    """One decoded sentence. EOS does not count in any length.

    Spaces separate the words of all texts. If `writing` says that each character is a word, a space
    must stand between any two of them (`simulmt.decoding.writing.spaced`); `texts_of` joins them.

    `delays[i]` is the number of source words read before word i of the prediction was written.
    `subword_delays` is the same in subwords, EOS included, and `before_end` the number of words
    that were written before EOS had been read: both tell a replay what `delays` cannot.

    `positions[i][h]` is the source subword, from 1, at which head h (counted over all layers)
    stopped to write subword i; empty if no head makes hard decisions. `word_positions` is the same
    for words, with EOS as the last source word. All fields in subwords, and `word_positions`, are
    empty for an instance from a log.

    `elapsed[i]` is the time at which word i of the prediction was written, in source words: the
    word's delay, plus the computing time until then divided by the time that a source word takes to
    arrive. Empty if the times were not measured.

    `erased` is the number of words that were shown and taken back; None without re-translation.

    Raises:
        ValueError: the number of delays differs from the number of words of the prediction, or
            `elapsed` does not hold such times.
    """

    index: int
    source: str
    reference: str
    prediction: str
    delays: tuple[int, ...]
    subword_delays: tuple[int, ...] = ()
    before_end: int = 0
    subword_source_length: int = 0
    subword_reference_length: int = 0
    positions: tuple[tuple[int, ...], ...] = ()
    word_positions: tuple[tuple[int, ...], ...] = ()
    elapsed: tuple[float, ...] = ()
    erased: int | None = None
    writing: Writing = WORDS

    def __post_init__(self) -> None:
        if len(self.delays) != self.prediction_length:
            raise ValueError(
                f"sentence {self.index + 1}: {len(self.delays)} delays for the "
                f"{self.prediction_length} words of {self.prediction!r}"
            )
        times = zip(self.elapsed, self.delays, strict=False)
        if self.elapsed and not (
            len(self.elapsed) == len(self.delays)
            and all(delay <= time < math.inf for time, delay in times)
            and all(before <= after for before, after in pairwise(self.elapsed))
        ):
            raise ValueError(
                f"sentence {self.index + 1}: 'elapsed' is {list(self.elapsed)}, but it needs "
                "a finite time for each word, never falling and never below the word's delay in "
                f"{list(self.delays)}"
            )

    @cached_property
    def source_length(self) -> int:
        """Number of source words."""
        return len(self.source.split())

    @cached_property
    def prediction_length(self) -> int:
        """Number of written words."""
        return len(self.prediction.split())

    @cached_property
    def reference_length(self) -> int:
        """Number of words of the reference."""
        return len(self.reference.split())


def of_reference(
    index: int, text: str, reference: str, stops: Iterable[int], words: Sequence[int]
) -> Instance:
    """Return a reference as if it had been written.

    Args:
        index: the place of the sentence in its split, from 0.
        text: the source.
        reference: what is written.
        stops: the source subwords, EOS included, read before each word of the reference; words at
            its end that have no subword may lack theirs, and are written at the end.
        words: the word of each source subword, without EOS.
    """
    count = len(text.split())
    read = WordMap((*words, count))  # the last words may have no subword
    delays = tuple(map(read.at, stops))
    delays += (count,) * (len(reference.split()) - len(delays))
    return Instance(index, text, reference, reference, delays)


def texts_of(instance: Instance) -> tuple[str, str, str]:
    """Return source, reference and prediction as people write them."""
    sides = instance.writing.source, instance.writing.target, instance.writing.target
    texts = instance.source, instance.reference, instance.prediction
    source, reference, prediction = map(unspaced, texts, sides)
    return source, reference, prediction
