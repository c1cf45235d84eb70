"""What a parallel corpus is, wherever it comes from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import accumulate


def oracle_delays(needs: Sequence[int]) -> list[int]:
    """The least delays with which a perfect translator can write the reference.

    Delay i is the number of source words read when target word i is written: a word waits for
    whatever it needs and for every word before it.
    """
    return list(accumulate(needs, max))


@dataclass(frozen=True)
class Split:
    """Parallel sentences, in order, words separated by single spaces.

    `needs[n][i]` is the number of source words that must have been read before target word i
    of sentence n can be written (the 1-based index of the last source word it is aligned to,
    0 for none); None where no word alignment is known.
    """

    sources: list[str]
    targets: list[str]
    needs: list[list[int]] | None = None
    dropped: dict[str, int] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.sources)


@dataclass(frozen=True)
class Corpus:
    """The splits `train`, `valid` and `test` of one language pair."""

    name: str
    source_language: str
    target_language: str
    splits: dict[str, Split]
