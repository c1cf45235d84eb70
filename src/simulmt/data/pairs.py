"""Pairs of lines, block by block: as they are in two files, and normalised.

This module is imported by every process that prepares data, so it imports nothing that is slow.
"""

from collections.abc import Iterator
from itertools import count, islice
from pathlib import Path
from typing import NamedTuple

from simulmt.data.files import FilePair
from simulmt.data.lines import LF, encoded
from simulmt.data.ragged import Ragged
from simulmt.data.text import LONGEST_LINE, decoded, normalise, raw_lines, word_count
from simulmt.errors import UserError

_BLOCK = 10_000  # pairs


class Block(NamedTuple):
    """Raw lines of both files, end to end, so that other processes get them fast."""

    files: FilePair
    first: int
    """The line number of the first pair, from 1."""
    sources: bytes
    targets: bytes
    unit: str = "line"
    """What holds a pair, in messages."""


class Pairs(NamedTuple):
    """The normalised pairs of a block, in UTF-8 and each line ended by LF."""

    sources: Ragged
    targets: Ragged
    dropped: dict[str, int]
    """The pairs that were left out, by reason."""


def raw_blocks(files: FilePair) -> Iterator[Block]:
    """The raw lines of two files, in at least one block.

    Raises:
        UserError: a file cannot be read, is damaged or of another length than its partner.
    """
    sides = [raw_lines(path) for path in files]
    for first in count(1, _BLOCK):
        sources, targets = ([*islice(side, _BLOCK)] for side in sides)
        if len(sources) != len(targets):
            read = zip((sources, targets), sides, strict=True)
            raise _unequal(files, *(first - 1 + len(a) + sum(1 for _ in b) for a, b in read))
        if sources or first == 1:
            yield Block(files, first, b"".join(sources), b"".join(targets))
        if len(sources) < _BLOCK:
            return


def clean(block: Block, max_words: int | None) -> Pairs:
    """Normalise the pairs of a block, and leave out what is empty or too long.

    Args:
        block: raw lines.
        max_words: the most words that either side of a pair may have; None for any number.

    Raises:
        UserError: a line is not UTF-8 or, without `max_words`, longer than `LONGEST_LINE`.
    """
    sources, targets = list[str](), list[str]()
    dropped = {"empty": 0, "too_long": 0}
    raw = zip(_lines(block.sources), _lines(block.targets), strict=True)
    for number, (source, target) in enumerate(raw, block.first):
        left = normalise(decoded(source, block.files.source, number))
        right = normalise(decoded(target, block.files.target, number))
        if not left or not right:
            dropped["empty"] += 1
        elif max_words is not None and max(word_count(left), word_count(right)) > max_words:
            dropped["too_long"] += 1
        else:
            if max_words is None:
                _check_length(left, block.files.source, block.unit, number)
                _check_length(right, block.files.target, block.unit, number)
            sources.append(left)
            targets.append(right)
    return Pairs(encoded(sources), encoded(targets), dropped)


def _lines(raw: bytes) -> list[bytes]:
    """Return lines without their LF, which the last line may lack."""
    lines = raw.split(LF)
    return lines if lines[-1] else lines[:-1]


def _check_length(line: str, path: Path, unit: str, number: int) -> None:
    if len(line) > LONGEST_LINE:
        raise UserError(
            f"{path}, {unit} {number}, has {len(line):,} characters, a sentence {LONGEST_LINE:,} "
            "at the most: split it, or leave the pair out"
        )


def _unequal(files: FilePair, source: int, target: int) -> UserError:
    return UserError(
        f"{files.source} has {source} lines but {files.target} has {target}: line n of one must be "
        "the translation of line n of the other; use files of the same release"
    )
