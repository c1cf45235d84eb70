"""The reader of parallel text files, plain or gzipped UTF-8 with one sentence per line.

Reading normalises every line, once. The rest of the package takes the lines of a `Split` as
normalised; text from elsewhere passes through `normalise` where it enters.
"""

import gzip
import unicodedata
import zlib
from collections.abc import Iterable, Iterator
from itertools import zip_longest
from pathlib import Path

from simulmt.data.corpus import Corpus, LazySplits, Split
from simulmt.data.lines import PackedLines
from simulmt.errors import UserError
from simulmt.options import Count

NORMALISATION = "NFC, white space and U+2581 folded"
"""What `normalise` does, in words. Every manifest has it: change it with `normalise`."""

LONGEST_LINE = 4096
"""The most characters of a sentence that is translated; longer ones take minutes."""
_BOM = b"\xef\xbb\xbf"


def normalise(line: str) -> str:
    """Unicode NFC, with every run of white space as one space and none at the ends; idempotent.

    No-break spaces, tabs and Unicode's line separators are white space. So is U+2581: it is
    SentencePiece's sign for a space.
    """
    return " ".join(unicodedata.normalize("NFC", line).replace("\u2581", " ").split())


def word_count(line: str) -> int:
    """The number of words of a normalised line: its single spaces separate them."""
    return line.count(" ") + 1 if line else 0


def read_text(
    root: str,
    source: str,
    target: str,
    train: str,
    valid: str,
    test: str,
    max_words: Count,
    name: str,
) -> Corpus:
    """A corpus of the files `<root>/<stem>.<language>`, or of the same with `.gz` if absent.

    Only LF or CR LF ends a line; a byte-order mark is skipped. A pair with an empty side is
    dropped from every split, a pair that is too long from `train` alone. `Split.dropped` counts
    both. Each split is read at its first access.

    Args:
        root: the folder of the files; `~` is expanded.
        source: language code of the source, the suffix of its files.
        target: language code of the target.
        train: stem of the training files, such as "train".
        valid: stem of the validation files, such as "val".
        test: stem of the test files, such as "test_2016_flickr".
        max_words: the most words that either side of a training pair may have.
        name: name of the corpus in reports and manifests.

    Raises:
        UserError: there is no such folder. At the first access to a split: a file is missing,
            damaged, not UTF-8 or of another length than its partner, or no pair is left.
    """
    folder = Path(root).expanduser()
    if not folder.is_dir():
        raise UserError(
            f"the data folder {folder} does not exist (or is no folder): set `root` to the folder "
            f"of {train}.{source} and {train}.{target}"
        )

    stems = {"train": train, "valid": valid, "test": test}

    def read(split: str) -> Split:
        pair = source, target
        left, right = (_find(folder, stems[split], side, pair) for side in pair)
        return read_pair(left, right, max_words if split == "train" else None)

    return Corpus(name, source, target, LazySplits(read))


def _find(folder: Path, stem: str, language: str, pair: tuple[str, str]) -> Path:
    """The file of one side of a split; the error lists the files that the folder has instead."""
    paths = [folder / f"{stem}.{language}{suffix}" for suffix in ("", ".gz")]
    for path in paths:
        if path.is_file():
            return path
    names = sorted(path.name for path in folder.iterdir() if path.is_file())
    if both := sorted(_stems(names, pair[0]) & _stems(names, pair[1])):
        instead = f"stems with both {' and '.join(pair)} there: {', '.join(both)}"
    else:
        listing = ", ".join(names[:12]) + (", ..." if len(names) > 12 else "")
        instead = f"no stem there has both {' and '.join(pair)}; files: {listing or 'none'}"
    raise UserError(
        f"neither {' nor '.join(map(str, paths))} is there; {instead}. "
        "Correct the stem, the language or `root`"
    )


def _stems(names: Iterable[str], language: str) -> set[str]:
    plain = {name.removesuffix(".gz") for name in names}
    return {name.removesuffix(f".{language}") for name in plain if name.endswith(f".{language}")}


def read_pair(source: Path, target: Path, max_words: int | None = None) -> Split:
    """The pairs of two files; line n of one is the translation of line n of the other.

    Args:
        source: the file of the source.
        target: the file of the target.
        max_words: the most words that either side of a pair may have; None for any number.

    Raises:
        UserError: a file is missing, damaged, not UTF-8 or of another length than its partner,
            no pair is left, or, without `max_words`, a line is longer than `LONGEST_LINE`.
    """
    sources, targets = PackedLines(), PackedLines()
    dropped = {"empty": 0, "too_long": 0}
    source_lines = target_lines = 0
    for left, right in zip_longest(text_lines(source), text_lines(target)):
        source_lines += left is not None
        target_lines += right is not None
        if not left or not right:
            dropped["empty"] += 1
        elif max_words is None and (longest := max(len(left), len(right))) > LONGEST_LINE:
            raise UserError(
                f"{source if longest == len(left) else target}, line {source_lines}, has "
                f"{longest:,} characters, a sentence {LONGEST_LINE:,} at the most: split it, or "
                "leave the pair out"
            )
        elif max_words is not None and max(word_count(left), word_count(right)) > max_words:
            dropped["too_long"] += 1
        else:
            sources.append(left)
            targets.append(right)
    if source_lines != target_lines:
        raise UserError(
            f"{source} has {source_lines} lines but {target} has {target_lines}: line n of one "
            "must be the translation of line n of the other; use files of the same release"
        )
    if not sources:
        limit = "" if max_words is None else f" (max_words={max_words}: raise it)"
        raise UserError(
            f"no pair is left of {source} and {target}: {source_lines} lines, "
            f"{dropped['empty']} pairs with an empty side, {dropped['too_long']} too long{limit}; "
            "check that these are the right files"
        )
    return Split(sources, targets, dropped=dropped)


def text_lines(path: Path, errors: str = "strict") -> Iterator[str]:
    """The normalised lines of a file, plain or `.gz`.

    Only LF or CR LF ends a line; a byte-order mark is skipped.

    Args:
        path: the file.
        errors: how to treat bytes that are not UTF-8, as for `bytes.decode`.

    Raises:
        UserError: the file cannot be read, is damaged or, with `errors="strict"`, is not UTF-8.
    """
    try:
        with gzip.open(path, "rb") if path.suffix == ".gz" else open(path, "rb") as file:
            for number, raw in enumerate(file, 1):
                line = raw.removeprefix(_BOM) if number == 1 else raw
                yield normalise(line.decode("utf-8", errors))
    except UnicodeDecodeError as error:
        raise UserError(
            f"{path}, line {number}, byte offset {error.start} in that line "
            f"(0x{error.object[error.start]:02x}) is not UTF-8: convert the file, for example with "
            "`iconv -f LATIN1 -t UTF-8`, or fetch it again"
        ) from error
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise UserError(
            f"{path} is damaged, or no gzip file ({error}): "
            "fetch it again, or drop .gz from its name if it is plain text"
        ) from error
    except OSError as error:
        raise UserError(
            f"{path} cannot be read ({error.strerror}): check the path and its permissions"
        ) from error
