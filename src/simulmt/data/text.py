"""Normalised text: what a line and a word are, and the lines of a file.

Reading normalises every line, once. The rest of the package takes the lines of a `Split` as
normalised; text from elsewhere passes through `normalise` where it enters.
"""

import unicodedata
from collections.abc import Iterator
from functools import cache
from itertools import chain, groupby
from pathlib import Path

from simulmt.errors import UserError
from simulmt.system.disk import raw_lines

NORMALISATION = "NFC, white space and U+2581 folded"
"""A description of `normalise`, which every manifest holds: change it with `normalise`."""

LONGEST_LINE = 4096
"""The most characters of a sentence that is translated; longer ones take minutes."""
ENDINGS = ("", ".gz", ".zst")
"""Endings of the names of text files: plain, or compressed by gzip or Zstandard."""
_BOM = b"\xef\xbb\xbf"
_SHORT = 1000  # characters: any line of this length is normalised in milliseconds


def normalise(line: str) -> str:
    """Unicode NFC, with every run of white space as one space and none at the ends; idempotent.

    No-break spaces, tabs and Unicode's line separators are white space. So is U+2581: it is
    SentencePiece's sign for a space. The time is linear in the length of the line.
    """
    ordered = line if len(line) <= _SHORT else _ordered(line)
    return " ".join(unicodedata.normalize("NFC", ordered).replace("\u2581", " ").split())


def _ordered(line: str) -> str:
    """Unicode NFD of a line of any length.

    `unicodedata` sorts the combining marks of a letter by insertion, in quadratic time.
    """
    signs = "".join(unicodedata.normalize("NFD", sign) for sign in line)
    runs = groupby(signs, key=lambda sign: unicodedata.combining(sign) == 0)
    return "".join(chain.from_iterable(sorted(run, key=unicodedata.combining) for _, run in runs))


def stem(path: Path) -> str:
    """The name of a text file without language and compression: `news` of `news.de.gz`."""
    return (path.with_suffix("") if path.suffix in ENDINGS[1:] else path).stem


def word_count(line: str, characters: bool = False) -> int:
    """The number of words of a normalised line: its single spaces separate them.

    With `characters` each character other than a space is a word.
    """
    spaces = line.count(" ")
    return len(line) - spaces if characters else spaces + 1 if line else 0


@cache
def _marks() -> str:
    """The characters of Unicode's category P."""
    return "".join(c for c in map(chr, range(0x110000)) if unicodedata.category(c)[0] == "P")


def bare(word: str) -> str:
    """The word without punctuation marks at its edges; empty if nothing is left."""
    return word.strip(_marks())


def text_lines(path: Path) -> Iterator[str]:
    """The normalised lines of a file, plain, `.gz` or `.zst`.

    Only LF or CR LF ends a line; a byte-order mark is skipped.

    Raises:
        UserError: the file cannot be read, is corrupt, or is not UTF-8.
    """
    for number, raw in enumerate(raw_lines(path), 1):
        yield normalise(decoded(raw, path, number))


def decoded(raw: bytes, path: Path | str, number: int, errors: str = "strict") -> str:
    """A line as text; the byte-order mark of a first line is left out.

    Args:
        raw: the line as it is in the file.
        path: the file.
        number: the number of the line, from 1.
        errors: how to treat bytes that are not UTF-8, as for `bytes.decode`.

    Raises:
        UserError: the line is not UTF-8, with `errors="strict"`.
    """
    try:
        return (raw.removeprefix(_BOM) if number == 1 else raw).decode("utf-8", errors)
    except UnicodeDecodeError as error:
        raise UserError(
            f"{path}, line {number}, byte offset {error.start} in that line "
            f"(0x{error.object[error.start]:02x}) is not UTF-8: convert the file, for example with "
            "`iconv -f LATIN1 -t UTF-8`, or fetch it again"
        ) from error
