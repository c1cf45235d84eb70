"""What a parallel corpus is, wherever it comes from."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import accumulate

from simulmt.data.lines import Joined

SPLITS = ("train", "valid", "test")
"""The names of a corpus's splits."""


def oracle_delays(needs: Sequence[int]) -> list[int]:
    """The least delays with which a perfect translator can write the reference.

    Delay i is the number of source words read when target word i is written: a word waits for
    whatever it needs and for every word before it.
    """
    return list(accumulate(needs, max))


@dataclass(frozen=True)
class Split:
    """Parallel sentences, in order, words separated by single spaces.

    `links[n][i]` holds the 1-based positions of the source words that target word i of sentence n
    is aligned to; None where no word alignment is known.
    """

    sources: Sequence[str]
    targets: Sequence[str]
    links: list[list[tuple[int, ...]]] | None = None
    dropped: dict[str, int] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.sources)

    @property
    def text(self) -> Sequence[str]:
        """All sources, then all targets."""
        return Joined(self.sources, self.targets)

    @cached_property
    def needs(self) -> list[list[int]] | None:
        """How many source words must have been read before each target word can be written.

        It is the position of the last one that the word is aligned to, 0 for none.
        """
        if self.links is None:
            return None
        return [[max(links, default=0) for links in sentence] for sentence in self.links]


class Splits(Mapping[str, Split]):
    """Splits by name, each read when it is first asked for."""

    def __init__(self, readers: Mapping[str, Callable[[], Split]]) -> None:
        self._readers = readers
        self._read = dict[str, Split]()

    def __getitem__(self, name: str) -> Split:
        if name not in self._read:
            self._read[name] = self._readers[name]()
        return self._read[name]

    def __contains__(self, name: object) -> bool:
        return name in self._readers

    def __iter__(self) -> Iterator[str]:
        return iter(self._readers)

    def __len__(self) -> int:
        return len(self._readers)


@dataclass(frozen=True)
class Corpus:
    """The splits of one language pair, named as in `SPLITS`."""

    name: str
    source_language: str
    target_language: str
    splits: Mapping[str, Split]
