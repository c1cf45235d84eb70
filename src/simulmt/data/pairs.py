"""Pairs of lines, block by block: as they are in two files, and normalised.

This module is imported by every process that prepares data, so it imports nothing that is slow.
"""

from collections.abc import Iterator
from itertools import count, islice
from typing import NamedTuple

from simulmt.data.files import FilePair
from simulmt.data.lines import encoded
from simulmt.data.ragged import Ragged
from simulmt.data.text import LONGEST_LINE, decoded, normalise, raw_lines, word_count
from simulmt.errors import UserError

BLOCK = 10_000
"""The most pairs of a block."""


class PairBlock(NamedTuple):
    """Raw lines of both sides, and what they are from."""

    names: tuple[str, str]
    """What the sources and the targets are from, for messages."""
    first: int
    """The line number of the first pair, from 1."""
    sources: list[bytes]
    targets: list[bytes]


class Pairs(NamedTuple):
    """The normalised pairs of a block, in UTF-8 and each line ended by LF."""

    sources: Ragged
    targets: Ragged
    dropped: dict[str, int]
    """The pairs that were left out, by reason."""


def raw_blocks(files: FilePair) -> Iterator[PairBlock]:
    """The raw lines of two files.

    Raises:
        UserError: a file cannot be read, is corrupt or of another length than its partner.
    """
    sides = [raw_lines(path) for path in files]
    names = str(files.source), str(files.target)
    for first in count(1, BLOCK):
        sources, targets = ([*islice(side, BLOCK)] for side in sides)
        if len(sources) != len(targets):
            end = first - 1 + min(len(sources), len(targets))
            longer, shorter = names if len(sources) > len(targets) else names[::-1]
            raise UserError(
                f"{shorter} ends after line {end}, but {longer} does not: line n of one must be "
                "the translation of line n of the other; use files of the same release"
            )
        if not sources:
            return
        yield PairBlock(names, first, sources, targets)


def clean(block: PairBlock, max_words: int | None) -> Pairs:
    """Normalise the pairs of a block, and leave out what is empty or too long.

    Args:
        block: raw lines.
        max_words: the most words that either side of a pair may have; None for any number.

    Raises:
        UserError: a line is not UTF-8 or, without `max_words`, longer than `LONGEST_LINE`.
    """
    sources, targets = list[str](), list[str]()
    dropped = {"empty": 0, "too_long": 0}
    raw = zip(block.sources, block.targets, strict=True)
    for number, (source_line, target_line) in enumerate(raw, block.first):
        source = normalise(decoded(source_line, block.names[0], number))
        target = normalise(decoded(target_line, block.names[1], number))
        if not source or not target:
            dropped["empty"] += 1
        elif max_words is not None and max(word_count(source), word_count(target)) > max_words:
            dropped["too_long"] += 1
        elif max_words is None and (longest := max(len(source), len(target))) > LONGEST_LINE:
            raise UserError(
                f"{block.names[len(target) > len(source)]}, line {number}, has {longest:,} "
                f"characters; the limit is {LONGEST_LINE:,}: split it, or leave the pair out"
            )
        else:
            sources.append(source)
            targets.append(target)
    return Pairs(encoded(sources), encoded(targets), dropped)
