"""A parallel corpus and its splits, from any source."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from itertools import accumulate

from simulmt.data.lines import as_lines

SPLITS = ("train", "valid", "test")
"""The names of a corpus's splits."""
SAMPLE = 1_000_000
"""The most lines of `Split.sample`, on which subwords are trained."""


def oracle_delays(needs: Sequence[int]) -> list[int]:
    """The smallest delays with which a perfect translator can write the reference.

    Delay i is the number of source words read when target word i is written. A word waits for
    the source words that it needs and for every target word before it.

    Args:
        needs: the number of source words that each target word needs, as in `Split.needs`.
    """
    return list(accumulate(needs, max))


@dataclass(frozen=True)
class Split:
    """N sentence pairs, in order; every line is normalised (`simulmt.data.text.normalise`).

    `links[n][i]` holds the 1-based positions of the source words aligned to target word i of
    sentence n. `links` is None if the word alignment is unknown. `dropped` counts the pairs that
    the reader left out, by reason. `documents` has the places of the sentences of each document,
    in order, by its name; empty if sentences stand alone. `ends` returns the places where the first
    sentence of a stream without marks may end, by its first words; None if this is unknown.
    """

    sources: Sequence[str]
    targets: Sequence[str]
    links: list[list[tuple[int, ...]]] | None = None
    dropped: dict[str, int] = field(default_factory=dict)
    documents: Mapping[str, range] = field(default_factory=dict)
    ends: Callable[[Sequence[str]], set[int]] | None = field(default=None, compare=False)

    def __len__(self) -> int:
        return len(self.sources)

    def sample(self) -> Iterator[str]:
        """All sources, then all targets; of more than `SAMPLE` lines, evenly spaced ones."""
        pairs = len(self)
        count = min(2 * pairs, SAMPLE)
        for place in (index * 2 * pairs // count for index in range(count)):
            yield self.sources[place] if place < pairs else self.targets[place - pairs]

    @cached_property
    def sha256(self) -> tuple[str, str]:
        """SHA-256 in hex of the sources and of the targets in UTF-8, each line ended by LF."""
        return as_lines(self.sources).sha256, as_lines(self.targets).sha256

    @cached_property
    def needs(self) -> list[list[int]] | None:
        """For every target word, how many source words must be read before it can be written.

        This is the position of the last source word aligned to the target word, 0 for a target
        word without links. None if the word alignment is unknown.
        """
        if self.links is None:
            return None
        return [[max(links, default=0) for links in sentence] for sentence in self.links]


class LazySplits(Mapping[str, Split]):
    """The splits of `SPLITS`; at the first access to a split `read` is called with its name."""

    def __init__(self, read: Callable[[str], Split]) -> None:
        self._read = cache(read)

    def __getitem__(self, name: str) -> Split:
        return self._read(name)

    def __contains__(self, name: object) -> bool:
        return name in SPLITS

    def __iter__(self) -> Iterator[str]:
        return iter(SPLITS)

    def __len__(self) -> int:
        return len(SPLITS)


@dataclass(frozen=True)
class Corpus:
    """The splits of a language pair, by the names in `SPLITS`."""

    name: str
    source_language: str
    target_language: str
    splits: Mapping[str, Split]
