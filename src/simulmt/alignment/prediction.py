"""What a model predicts of words that it has not read: Zhang and Feng (2021).

An output word is *absent* if a source word that it is linked to had not been read when it was
written, *present* if all had been, and *unlinked* if there is none. The **last** linked word
decides, as for `Split.needs`: so whoever writes each word once it can be known writes no absent
word. A word is *right* if the reference has the same word, linked to one of the same source words.
"""

from __future__ import annotations

from collections.abc import Sequence
from difflib import SequenceMatcher
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

from simulmt.alignment.links import Links, form

Counts = NDArray[np.int64]


class Kind(IntEnum):
    """Of an output word: the rows of what `judge` counts."""

    ABSENT = 0
    PRESENT = 1
    UNLINKED = 2


def judge(
    output: Sequence[str],
    delays: Sequence[int],
    links: Links,
    reference: Sequence[str],
    reference_links: Links,
) -> Counts:
    """Words of each kind of a sentence, and how many of them are right: (3, 2).

    Words are the same if their `form` is. A word of the reference makes at most one output word
    right, the first that it fits; an unlinked one is right for the same word, if that has no link
    either.

    Args:
        output: The words written.
        delays: How many source words had been read when each was written.
        links: Of source and output.
        reference: Words.
        reference_links: Of source and reference.
    """
    counts = np.zeros((len(Kind), 2), dtype=np.int64)
    ours, theirs = _by_target(links, len(output)), _by_target(reference_links, len(reference))
    left = list(zip(map(form, reference), theirs, strict=True))
    for word, delay, linked in zip(map(form, output), delays, ours, strict=True):
        late = max(linked, default=-1) >= delay  # source words are counted from 0
        kind = (Kind.ABSENT if late else Kind.PRESENT) if linked else Kind.UNLINKED
        fits = [
            other
            for other in left
            if other[0] == word and (linked & other[1] or not (linked or other[1]))
        ]
        if fits:
            left.remove(fits[0])
        counts[kind] += (1, bool(fits))
    return counts


def project(output: Sequence[str], reference: Sequence[str], links: Links) -> Links:
    """Links of an output, from those of the reference.

    A word takes the links of the reference's word that it stands for: the same word of a longest
    matching run, or one in its place, from left to right, between two such runs. What is left
    over has none. It is for outputs that keep close to the reference.

    Args:
        output: The words written.
        reference: Words.
        links: Of source and reference.
    """
    found = _by_target(links, len(reference))
    matcher = SequenceMatcher(None, [*map(form, reference)], [*map(form, output)], autojunk=False)
    stands_for = [
        pair
        for _, start, end, first, last in matcher.get_opcodes()
        for pair in zip(range(start, end), range(first, last), strict=False)
    ]
    return frozenset((i, ours) for theirs, ours in stands_for for i in found[theirs])


def accuracies(counts: Counts) -> NDArray[np.float64]:
    """Right words of all words in percent, of summed counts (..., 3, 2): (..., 3), NaN for none."""
    words, right = counts[..., 0], counts[..., 1]
    found = np.full(words.shape, np.nan)
    np.divide(100.0 * right, words, out=found, where=words > 0)
    return found


def _by_target(links: Links, length: int) -> list[set[int]]:
    found = [set[int]() for _ in range(length)]
    for i, j in links:
        found[j].add(i)
    return found
