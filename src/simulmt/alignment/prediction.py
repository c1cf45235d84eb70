"""Accuracy on words whose source word had not been read: Zhang and Feng (2021).

An output word is *absent* if a source word that it is linked to had not been read when it was
written, *present* if all had been read, and *unlinked* without links. The **last** linked source
word decides, as in `Split.needs`, so the oracle writes no absent word. A word is *right* if the
reference has the same word, linked to one of the same source words.
"""

from collections.abc import Sequence
from difflib import SequenceMatcher
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

from simulmt.alignment.links import Links, bare_word, by_target

LinkCounts = NDArray[np.int64]


class LinkKind(IntEnum):
    """The kinds of an output word: the rows of the counts of `judge`."""

    ABSENT = 0
    PRESENT = 1
    UNLINKED = 2


def judge(
    output: Sequence[str],
    delays: Sequence[int],
    links: Links,
    reference: Sequence[str],
    reference_links: Links,
) -> LinkCounts:
    """The number of output words of each kind, and how many of them are right: shape (3, 2).

    Two words are the same if their `bare_word` is. A reference word makes at most one output word
    right: the first that it matches. An unlinked output word matches an unlinked reference word.

    Args:
        output: the written words.
        delays: the number of source words read before each output word was written.
        links: links of source and output.
        reference: the words of the reference.
        reference_links: links of source and reference.
    """
    counts = np.zeros((len(LinkKind), 2), dtype=np.int64)
    linked, known = by_target(links, len(output)), by_target(reference_links, len(reference))
    unmatched = [*zip(map(bare_word, reference), known, strict=True)]
    for word, delay, sources in zip(map(bare_word, output), delays, linked, strict=True):
        absent = max(sources, default=0) > delay
        kind = (LinkKind.ABSENT if absent else LinkKind.PRESENT) if sources else LinkKind.UNLINKED
        matches = (
            candidate
            for candidate in unmatched
            if candidate[0] == word and (sources & candidate[1] or not (sources or candidate[1]))
        )
        match = next(matches, None)
        if match is not None:
            unmatched.remove(match)
        counts[kind] += (1, match is not None)
    return counts


def project(output: Sequence[str], reference: Sequence[str], links: Links) -> Links:
    """The links of an output that keeps close to the reference, from the reference's links.

    An output word takes the links of the reference word that it stands for: the same word in a
    longest matching run, or the word at its place, from left to right, between two such runs. Any
    other output word has no links.

    Args:
        output: the written words.
        reference: the words of the reference.
        links: links of source and reference.
    """
    linked = by_target(links, len(reference))
    matcher = SequenceMatcher(
        None, [*map(bare_word, reference)], [*map(bare_word, output)], autojunk=False
    )
    return frozenset(
        (i - 1, ours)
        for _, start, end, first, last in matcher.get_opcodes()
        for theirs, ours in zip(range(start, end), range(first, last), strict=False)
        for i in linked[theirs]
    )


def accuracies(counts: LinkCounts) -> NDArray[np.float64]:
    """The percentage of right words of each kind, NaN without words: (..., 3, 2) to (..., 3)."""
    words, right = counts[..., 0], counts[..., 1]
    percentages = np.full(words.shape, np.nan)
    np.divide(100.0 * right, words, out=percentages, where=words > 0)
    return percentages
