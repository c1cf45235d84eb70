"""The one map from the subwords of a sentence to its words."""

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import TypeVar

T = TypeVar("T")


class WordMap(tuple[int, ...]):
    """The word of each subword, from 1, in order; 0 for a subword without a word."""

    @classmethod
    def of_lengths(cls, lengths: Iterable[int], start: int = 1) -> "WordMap":
        """The map of words with these numbers of subwords; the first word is number `start`."""
        return cls(number for number, length in enumerate(lengths, start) for _ in range(length))

    @property
    def ends(self) -> list[int]:
        """The number of the last subword of each word, from 1; one subword may end several."""
        found = list[int]()
        for number, (word, following) in enumerate(pairwise([*self, 0]), 1):
            if word != following:
                found += [number] * (word - len(found))
        return found

    def at(self, place: int) -> int:
        """The word of the subword at a place, from 1; beyond the last one, its word; 0 at 0."""
        return self[min(place, len(self)) - 1] if self and place > 0 else 0

    def delays(self, subword_delays: Sequence[int], source: "WordMap") -> tuple[int, ...]:
        """The number of source words read before each word was written.

        A word is written with its last subword. Source words arrive whole: a source word counts as
        read once one of its subwords has been read.

        Args:
            subword_delays: source subwords read before each subword was written; EOS may count, and
                adds no source word.
            source: the words of the source.
        """
        return tuple(source.at(subword_delays[end - 1]) for end in self.ends)

    def stops(
        self, positions: Sequence[Sequence[int]], source: "WordMap"
    ) -> tuple[tuple[int, ...], ...]:
        """The source words at which heads had stopped when each word was written.

        Args:
            positions: the source subwords at which they had stopped for each subword; 0 for a head
                that has run off the end.
            source: the words of the source, with one for EOS.
        """
        return tuple(tuple(map(source.at, positions[end - 1])) for end in self.ends)

    def grouped(self, subwords: Sequence[T]) -> list[Sequence[T]]:
        """The subwords of each word."""
        return [subwords[start:end] for start, end in pairwise([0, *self.ends])]
