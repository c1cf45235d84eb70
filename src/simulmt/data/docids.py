"""The documents of a text.

They are in a file of ids beside the text, one a line, with equal ids adjacent; or they are drawn.
"""

from collections.abc import Sequence
from itertools import groupby
from pathlib import Path
from random import Random

from simulmt.data.text import text_lines
from simulmt.errors import UserError


def read_docids(path: Path, lines: int) -> dict[str, range]:
    """Return the lines of each document, from 0, by its id.

    Args:
        path: The file of ids, plain, `.gz` or `.zst`.
        lines: The number of lines of the text.

    Raises:
        UserError: the file cannot be read, has another number of lines, or names a document again
            after another one.
    """
    ids = [*text_lines(path)]
    if len(ids) != lines:
        raise UserError(f"{path}: {len(ids):,} ids for {lines:,} lines of text: give one for each")
    return adjacent(ids, f"{path}, line")


def adjacent(names: Sequence[str], place: str) -> dict[str, range]:
    """Return the places of each name, from 0; messages call the first one `place` 1.

    Raises:
        UserError: the places of a name are not adjacent.
    """
    found, end = dict[str, range](), 0
    for name, group in groupby(names):
        start, end = end, end + len([*group])
        if name in found:
            why = f"{place} {start + 1}: {name!r} was above, before others"
            raise UserError(f"{why}: keep all of one document together")
        found[name] = range(start, end)
    return found


def drawn_documents(lines: int, lengths: tuple[int, int]) -> dict[str, range]:
    """Return documents of adjacent lines, named from "1"; the same numbers give the same documents.

    Args:
        lines: the number of lines of the text.
        lengths: the least and the most lines of a document; the last may have fewer.
    """
    rng, found, end = Random(1), dict[str, range](), 0
    while end < lines:
        start, end = end, min(lines, end + rng.randint(*lengths))
        found[str(len(found) + 1)] = range(start, end)
    return found
