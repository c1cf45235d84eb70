"""The references of documents, and where each of their segments begins and ends in the source."""

import json
from collections.abc import Mapping, Sequence
from itertools import accumulate
from pathlib import Path, PurePath
from typing import NamedTuple, TypeAlias

import yaml

from simulmt.data.docids import adjacent, read_docids
from simulmt.data.text import decoded, text_lines, word_count
from simulmt.decoding.writing import WORDS, Writing, spaced
from simulmt.errors import UserError
from simulmt.system.disk import raw_lines


class Segment(NamedTuple):
    """A sentence of the reference, in words, and its place in the source of the document."""

    text: str
    start: float
    length: float

    @property
    def end(self) -> float:
        """Where its source ends."""
        return self.start + self.length


Documents: TypeAlias = Mapping[str, Sequence[Segment]]
"""The segments of each document, at least one, by its name."""


def read_documents(
    references: Path, source: Path, docids: Path, writing: Writing = WORDS
) -> Documents:
    """Return the documents of a text, in source words.

    Args:
        references: One sentence per line; plain, `.gz` or `.zst`, like the other files.
        source: The source of each line.
        docids: The id of the document of each line.
        writing: What a word is, on either side.

    Raises:
        UserError: a file cannot be read, or does not fit the others.
    """
    texts = [spaced(line, writing.target) for line in text_lines(references)]
    lengths = [word_count(line, writing.source) for line in text_lines(source)]
    _check(f"source={source}", len(lengths), references, len(texts))
    groups = read_docids(docids, len(texts)).items()
    each = {name: slice(rows.start, rows.stop) for name, rows in groups}
    return {name: in_turn(texts[rows], lengths[rows]) for name, rows in each.items()}


def in_turn(texts: Sequence[str], lengths: Sequence[int]) -> list[Segment]:
    """Return the segments of a document, from their references and lengths in source words."""
    starts = accumulate(lengths, initial=0)
    return [Segment(*each) for each in zip(texts, starts, lengths, strict=False)]


def read_segmentation(references: Path, segmentation: Path, writing: Writing = WORDS) -> Documents:
    """Return the documents of OmniSTEval's segmentation file, in milliseconds.

    The name of a recording is that of its file without folder and ending.

    Args:
        references: A sentence a line.
        segmentation: YAML or JSON with an entry for each line: `wav`, and `offset` and `duration`
            in seconds.
        writing: What a word is, on either side.

    Raises:
        UserError: a file cannot be read, or does not fit the other.
    """
    try:
        parse = json.loads if segmentation.suffix == ".json" else yaml.safe_load
        entries = parse(b"".join(raw_lines(segmentation)))
        names = [PurePath(entry["wav"]).stem for entry in entries]
        places = [(1000 * float(e["offset"]), 1000 * float(e["duration"])) for e in entries]
    except (yaml.YAMLError, KeyError, TypeError, ValueError) as error:
        why = f"{' '.join(repr(error).split()):.200}"
        raise UserError(
            f"segmentation={segmentation}: not entries of wav, offset, duration: {why}"
        ) from None
    lines = enumerate(raw_lines(references), 1)
    # not normalised: OmniSTEval's length of a reference counts each of several spaces
    plain = (decoded(raw, references, number).strip() for number, raw in lines)
    texts = [spaced(line, writing.target) for line in plain]
    _check(f"segmentation={segmentation}", len(places), references, len(texts))
    segments = [Segment(text, *place) for text, place in zip(texts, places, strict=True)]
    groups = adjacent(names, f"{segmentation}, entry").items()
    return {name: segments[rows.start : rows.stop] for name, rows in groups}


def _check(option: str, count: int, references: Path, lines: int) -> None:
    if count != lines or not lines:
        also = f"references={references} has {lines:,}: give a line for each, at least one"
        raise UserError(f"{option} has {count:,} segments but {also}")
