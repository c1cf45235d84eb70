"""Sources as a speech recogniser writes them: without punctuation marks, without capitals."""

import unicodedata
from dataclasses import replace
from functools import cache
from itertools import accumulate

import numpy as np

from simulmt.data.corpus import Split
from simulmt.data.lines import Lines
from simulmt.data.text import normalise


@cache
def _marks() -> frozenset[str]:
    """The characters of Unicode's category P."""
    return frozenset(c for c in map(chr, range(0x110000)) if unicodedata.category(c)[0] == "P")


def without_marks(line: str) -> str:
    """The words of a line without punctuation marks at their edges; the line if nothing is left.

    >>> without_marks("Nein, sagt er - und geht's an.")
    "Nein sagt er und geht's an"
    """
    return " ".join(filter(None, map(_bare, line.split()))) or line


def _bare(word: str) -> str:
    """The word without punctuation marks at its edges."""
    marks = _marks()
    return word.strip("".join({*word} & marks)) if marks.intersection((word[0], word[-1])) else word


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
    bare, lower = np.repeat(draws, lengths, axis=0).T
    lines = (without_marks(s) if drop else s for s, drop in zip(split.sources, bare, strict=True))
    sources = Lines.of(
        normalise(s.lower()) if low else s for s, low in zip(lines, lower, strict=True)
    )
    links = split.links and [*map(_moved, split.links, split.sources, bare)]
    return replace(split, sources=sources, links=links)


def _moved(links: list[tuple[int, ...]], line: str, bare: bool) -> list[tuple[int, ...]]:
    """The links of a line, if `bare` without marks: those to a mark go to the word before it."""
    if not bare or without_marks(line) == line:
        return links
    places = [0, *accumulate(int(_bare(word) != "") for word in line.split())]
    return [tuple(sorted({places[link] for link in own} - {0})) for own in links]
