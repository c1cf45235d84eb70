"""Word alignments, and the text format that aligners write.

Each line is a sentence pair: `0-0 1-2` links source word 0 to target word 0 and source word 1 to
target word 2, counted from 0. A file made by hand may distinguish sure links, `1-2`, from possible
links, `1?2` (Och and Ney 2003).
"""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple, TypeAlias

from simulmt.data.text import bare, text_lines, word_count
from simulmt.errors import UserError

Links: TypeAlias = frozenset[tuple[int, int]]
"""The links of a sentence pair: (source word, target word), counted from 0."""

_LINK = re.compile(r"(\d{1,6})([-?])(\d{1,6})", re.ASCII)


class Gold(NamedTuple):
    """Links made by hand; every sure link is also possible."""

    sure: Links
    possible: Links


def bare_word(word: str) -> str:
    """The word in lower case without punctuation at its ends; only punctuation stays whole.

    White space separates words, so the text has "Bench." and "bench". Without this, the first and
    last word of a sentence would be rare for the aligner and wrong for a reference.
    """
    return (bare(word) or word).lower()


def parse_links(line: str) -> Gold:
    """The links of a line; ValueError if the line holds anything else."""
    sure, possible = set[tuple[int, int]](), set[tuple[int, int]]()
    for item in line.split():
        match = _LINK.fullmatch(item)
        if match is None:
            raise ValueError(f"{item!r} is not a link such as 0-1 (sure) or 0?1 (possible)")
        link = (int(match[1]), int(match[3]))
        possible.add(link)
        if match[2] == "-":
            sure.add(link)
    return Gold(frozenset(sure), frozenset(possible))


def format_links(links: Links) -> str:
    """The line of the links, in the order of the target words."""
    ordered = sorted(links, key=lambda link: (link[1], link[0]))
    return " ".join(f"{i}-{j}" for i, j in ordered)


def read_links(path: Path, sources: Sequence[str], targets: Sequence[str]) -> list[Gold]:
    """The links of each sentence pair of a corpus.

    Args:
        path: a file, plain, `.gz` or `.zst`; a line for each pair, empty for one without links.
        sources: normalised lines.
        targets: the same number of normalised lines.

    Raises:
        UserError: the file cannot be read or does not have as many lines as the text; or a line
            holds no links, or a link to a word that its sentence does not have.
    """
    lines = [*text_lines(path)]
    if len(lines) != len(sources):
        raise UserError(
            f"links={path} has {len(lines)} lines, the text {len(sources)} sentence pairs; give a "
            "line for each pair, as `simulmt align` writes them"
        )
    links = []
    for number, (line, source, target) in enumerate(zip(lines, sources, targets, strict=True), 1):
        try:
            links.append(parse_links(line))
        except ValueError as error:
            raise UserError(f"links={path}, line {number}: {error}") from None
        words = (word_count(source), word_count(target))
        for i, j in sorted(links[-1].possible):
            if i >= words[0] or j >= words[1]:
                raise UserError(
                    f"links={path}, line {number}: {i}-{j} in a pair of {words[0]} and {words[1]} "
                    "words, which are counted from 0; give the links of this text, source first"
                )
    return links


def by_target(links: Links, length: int) -> list[set[int]]:
    """The source words of each of `length` target words; source words are counted from 1."""
    sources = [set[int]() for _ in range(length)]
    for i, j in links:
        sources[j].add(i + 1)
    return sources


def known_links(needed: Sequence[Sequence[int]]) -> Gold:
    """The links of a sentence pair whose alignment is known by construction, as in `Split.links`.

    The link of a word with one source word is sure. All links of a word with several source words
    are only possible: Och and Ney (2003) mark an ambiguous alignment so.
    """
    links = [(i - 1, j, len(positions)) for j, positions in enumerate(needed) for i in positions]
    sure = frozenset((i, j) for i, j, count in links if count == 1)
    return Gold(sure, frozenset((i, j) for i, j, _ in links))
