"""Word alignments, and the text format in which aligners pass them on.

A line for each sentence pair, `0-0 1-2`: source word 0 and target word 0, counted from 0. A file
made by hand may tell sure links, `1-2`, from possible ones, `1?2` (Och and Ney 2003).
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple, TypeAlias

from simulmt.data.text import text_lines
from simulmt.errors import UserError

Links: TypeAlias = frozenset[tuple[int, int]]
"""Of one sentence pair: source word and target word, each counted from 0."""

_LINK = re.compile(r"(\d{1,6})([-?])(\d{1,6})", re.ASCII)


class Gold(NamedTuple):
    """Links made by hand; every sure one is possible, too."""

    sure: Links
    possible: Links


def form(word: str) -> str:
    """A word without case and without the punctuation at its ends, unless it is nothing else.

    Words are what white space divides, so "Bench." and "bench" are two; a sentence's first and
    last word would otherwise be rare words for the aligner, and wrong ones for the reference.
    """
    inside = [i for i, sign in enumerate(word) if unicodedata.category(sign)[0] != "P"]
    return (word[inside[0] : inside[-1] + 1] if inside else word).lower()


def parse_links(line: str) -> Gold:
    """The links of a line; ValueError if it holds anything else."""
    found = [(item, _LINK.fullmatch(item)) for item in line.split()]
    if wrong := [item for item, match in found if match is None]:
        raise ValueError(f"{wrong[0]!r} is no link such as 0-1 (sure) or 0?1 (possible)")
    links = [(int(match[1]), match[2], int(match[3])) for _, match in found if match]
    sure = frozenset((i, j) for i, sign, j in links if sign == "-")
    return Gold(sure, sure | {(i, j) for i, _, j in links})


def format_links(links: Links) -> str:
    """The line of some links, in the order of the target."""
    ordered = sorted(links, key=lambda link: (link[1], link[0]))
    return " ".join(f"{i}-{j}" for i, j in ordered)


def read_links(path: Path, sources: Sequence[str], targets: Sequence[str]) -> list[Gold]:
    """Read the links of a corpus.

    Args:
        path: A line for each pair, empty where nothing is linked; plain, or .gz.
        sources: Words separated by spaces.
        targets: As many.

    Raises:
        UserError: an unreadable file, one with another number of lines, a line that is none, or a
            link to a word that its sentence does not have; the message names the line.
    """
    lines = [*text_lines(path)]
    if len(lines) != len(sources):
        raise UserError(
            f"links={path} has {len(lines)} lines, the text {len(sources)} sentence pairs; give a "
            "line for each pair, as align.py writes them"
        )
    found = []
    for number, (line, source, target) in enumerate(zip(lines, sources, targets, strict=True), 1):
        try:
            gold = parse_links(line)
        except ValueError as error:
            raise UserError(f"links={path}, line {number}: {error}") from None
        sizes = (len(source.split()), len(target.split()))
        for i, j in sorted(gold.possible):
            if i >= sizes[0] or j >= sizes[1]:
                raise UserError(
                    f"links={path}, line {number}: {i}-{j} in a pair of {sizes[0]} and {sizes[1]} "
                    "words, which are counted from 0; is it of another text, or target-source?"
                )
        found.append(gold)
    return found


def known_links(needed: Sequence[Iterable[int]]) -> Gold:
    """Links of a sentence whose alignment is known by construction, as in `Split.links`.

    A word that is linked to a single source word is sure of it. One that hangs on several has
    possible links alone, as Och and Ney (2003) mark what is ambiguous: any of them will do.
    """
    words = [(j, [*positions]) for j, positions in enumerate(needed)]
    sure = frozenset((i - 1, j) for j, positions in words for i in positions if len(positions) == 1)
    return Gold(sure, frozenset((i - 1, j) for j, positions in words for i in positions))
