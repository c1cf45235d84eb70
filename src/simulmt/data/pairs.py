"""Pairs of lines: their files, and blocks of them, raw and normalised.

Every process that prepares data imports this module, so it imports nothing slow.
"""

import re
from collections.abc import Iterable, Iterator
from itertools import count, islice
from pathlib import Path
from typing import NamedTuple

from simulmt.data.lines import encoded
from simulmt.data.ragged import Ragged
from simulmt.data.text import ENDINGS, LONGEST_LINE, decoded, normalise, word_count
from simulmt.decoding.writing import WORDS, Writing, spaced
from simulmt.errors import UserError
from simulmt.system.disk import raw_lines

BLOCK = 10_000
"""The most pairs of a block."""
_LISTED = 20  # files in a message


class FilePair(NamedTuple):
    """Two files; line n of one is the translation of line n of the other."""

    source: Path
    target: Path


def find_pairs(folder: Path, stem: str, source: str, target: str) -> list[FilePair]:
    """The files `<folder>/<stem>.<language>`, or the shards `<folder>/<stem>.<number>.<language>`.

    A `*` in the last part of the stem stands for any text, so `train.*` names shards with other
    names. Of several files with one name, the plain one is taken, then `.gz`, then `.zst`.

    Args:
        folder: the folder of all files.
        stem: the beginning of the files' names; it may include a folder within `folder`.
        source: language code of the source.
        target: language code of the target.

    Raises:
        UserError: there are no such files, or a shard lacks its partner; the message lists the
            files that the folder has instead.
    """
    folder, stem = (folder / stem).parent, Path(stem).name
    names = sorted(path.name for path in folder.glob("*") if path.is_file())
    sides = {language: _shards(names, stem, language) for language in (source, target)}
    stems = sorted({*sides[source], *sides[target]})
    absent = [f"{name}.{language}" for name in stems or [stem]
              for language, side in sides.items() if name not in side]  # fmt: skip
    if absent:
        listed = ", ".join(names[:_LISTED]) + (", ..." if len(names) > _LISTED else "")
        raise UserError(
            f"{folder / absent[0]} is missing (plain, .gz or .zst); files there: "
            f"{listed or 'none'}. Correct the stem, the language or data.root, or add the file"
        )
    return [FilePair(*(folder / side[name] for side in sides.values())) for name in stems]


def _shards(names: Iterable[str], stem: str, language: str) -> dict[str, str]:
    """The files of one language of a stem, by their names without language and ending.

    If there is a file without a number, it is the only one.
    """
    any_text = ".*".join(re.escape(part) for part in stem.split("*"))
    numbered = "" if "*" in stem else r"(?:\.\d+)?"
    endings = "|".join(re.escape(ending) for ending in ENDINGS)
    form = re.compile(f"({any_text}{numbered})\\.{re.escape(language)}({endings})")
    matches = [match for name in names if (match := form.fullmatch(name))]
    matches.sort(key=lambda match: ENDINGS.index(match[2]), reverse=True)
    shards = {match[1]: match[0] for match in matches}
    return {stem: shards[stem]} if stem in shards else shards


class PairBlock(NamedTuple):
    """Raw lines of both sides, and the names of their files."""

    names: tuple[str, str]
    """The files of the sources and of the targets, for messages."""
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
        UserError: a file cannot be read, is corrupt or has fewer lines than its partner.
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


def clean(block: PairBlock, max_words: int | None, writing: Writing = WORDS) -> Pairs:
    """Normalise the pairs of a block; leave out pairs that are empty or too long.

    Args:
        block: raw lines.
        max_words: the most words that either side of a pair may have; None for any number.
        writing: what a word is, on either side; a space separates any two words of the pairs.

    Raises:
        UserError: a line is not UTF-8 or, without `max_words`, longer than `LONGEST_LINE`.
    """
    sources, targets = list[str](), list[str]()
    dropped = {"empty": 0, "too_long": 0}
    raw = zip(block.sources, block.targets, strict=True)
    for number, (source_line, target_line) in enumerate(raw, block.first):
        source = normalise(decoded(source_line, block.names[0], number))
        target = normalise(decoded(target_line, block.names[1], number))
        words = word_count(source, writing.source), word_count(target, writing.target)
        if not source or not target:
            dropped["empty"] += 1
        elif max_words is not None and max(words) > max_words:
            dropped["too_long"] += 1
        elif max_words is None and (longest := max(len(source), len(target))) > LONGEST_LINE:
            raise UserError(
                f"{block.names[len(target) > len(source)]}, line {number}, has {longest:,} "
                f"characters; the limit is {LONGEST_LINE:,}: split it, or leave the pair out"
            )
        else:
            sources.append(spaced(source, writing.source))
            targets.append(spaced(target, writing.target))
    return Pairs(encoded(sources), encoded(targets), dropped)
