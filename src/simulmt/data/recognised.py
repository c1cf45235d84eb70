"""Sources as a speech recogniser writes them: without punctuation marks, without capitals."""

from dataclasses import replace
from itertools import accumulate

import numpy as np

from simulmt.data.corpus import Split
from simulmt.data.lines import Lines
from simulmt.data.text import bare, normalise


def without_marks(line: str) -> str:
    """The words of a line without punctuation marks at their edges; the line if nothing is left.

    >>> without_marks("Nein, sagt er - und geht's an.")
    "Nein sagt er und geht's an"
    """
    return " ".join(filter(None, map(bare, line.split()))) or line


def as_recognised(split: Split, unpunctuated: float, lowercased: float) -> Split:
    """Return a split some of whose documents have lost the marks or the capitals of their source.

    The target stays. The draws depend only on the number of documents.

    Args:
        split: the pairs; a sentence that is in no document counts as one.
        unpunctuated: the share of documents without punctuation marks.
        lowercased: the share of documents without capitals.
    """
    if not (unpunctuated or lowercased):
        return split
    lengths = [*map(len, split.documents.values())] or [1] * len(split)
    draws = np.random.default_rng(1).random((len(lengths), 2)) < (unpunctuated, lowercased)
    unmarked, lower = np.repeat(draws, lengths, axis=0).T
    pairs = zip(split.sources, unmarked, strict=True)
    lines = (without_marks(source) if drop else source for source, drop in pairs)
    sources = Lines.of(
        normalise(s.lower()) if low else s for s, low in zip(lines, lower, strict=True)
    )
    links = split.links and [*map(_moved, split.links, split.sources, unmarked)]
    return replace(split, sources=sources, links=links)


def _moved(links: list[tuple[int, ...]], line: str, unmarked: bool) -> list[tuple[int, ...]]:
    """The links of a line; without marks, those to a mark go to the word before it."""
    if not unmarked or without_marks(line) == line:
        return links
    places = [0, *accumulate(int(bare(word) != "") for word in line.split())]
    return [tuple(sorted({places[link] for link in own} - {0})) for own in links]
