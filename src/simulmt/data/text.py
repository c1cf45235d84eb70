"""Parallel text files -> Corpus: plain or gzipped UTF-8, one sentence per line."""

from __future__ import annotations

import gzip
import unicodedata
import zlib
from collections.abc import Iterator
from functools import partial
from itertools import zip_longest
from pathlib import Path

from simulmt.data.corpus import Corpus, Split, Splits
from simulmt.data.lines import Lines
from simulmt.errors import UserError

NORMALISATION = "NFC, white space and U+2581 folded"
"""What `normalise` does, in words: part of every manifest. Change it when `normalise` changes."""

_BOM = b"\xef\xbb\xbf"
_SUFFIXES = ("", ".gz")


def normalise(line: str) -> str:
    """Unicode NFC; every run of white space becomes one space, none at the ends; idempotent.

    U+2581, SentencePiece's own sign for a space, counts as white space (SentencePiece reads it
    so in any case), and so do no-break spaces, tabs and Unicode's line separators.
    """
    return " ".join(unicodedata.normalize("NFC", line).replace("\u2581", " ").split())


def read_text(
    root: str,
    source: str,
    target: str,
    train: str,
    valid: str,
    test: str,
    max_words: int,
    name: str,
) -> Corpus:
    """Three splits from `<root>/<stem>.<language>`, or else from the same with `.gz`.

    Lines end with LF or CR LF, nothing else; a byte-order mark is skipped. Pairs with an empty
    side are dropped from all splits, longer ones only from `train`: `Split.dropped` counts them.
    A split is read when it is first asked for.

    Args:
        root: the folder of the files; `~` is expanded.
        source: language code of the source: the ending of its files.
        target: language code of the target.
        train: stem of the training files, such as "train".
        valid: stem of the validation files, such as "val".
        test: stem of the test files, such as "test_2016_flickr".
        max_words: longest training sentence on either side, in words.
        name: name of the corpus, for reports and manifests.

    Raises:
        UserError: no such folder, or, from a split that is asked for, a file that is missing,
            damaged, not UTF-8 or of another length than its partner, or nothing left of it.
    """
    folder = Path(root).expanduser()
    if not folder.is_dir():
        raise UserError(
            f"the data folder {folder} does not exist (or is no folder): set `root` to the folder "
            f"of {train}.{source} and {train}.{target}"
        )
    if max_words < 1:
        raise UserError(f"max_words={max_words} would drop every pair: set it to 1 or more")
    stems = {"train": (train, max_words), "valid": (valid, None), "test": (test, None)}
    readers = {key: partial(_read, folder, source, target, *stems[key]) for key in stems}
    return Corpus(name, source, target, Splits(readers))


def _read(folder: Path, source: str, target: str, stem: str, max_words: int | None) -> Split:
    left, right = (_find(folder, stem, side, (source, target)) for side in (source, target))
    return read_pair(left, right, max_words)


def _find(folder: Path, stem: str, language: str, pair: tuple[str, str]) -> Path:
    """The file of one side of one split; the error tells what is there instead."""
    wanted = [folder / f"{stem}.{language}{suffix}" for suffix in _SUFFIXES]
    for path in wanted:
        if path.is_file():
            return path
    both = sorted(_stems(folder, pair[0]) & _stems(folder, pair[1]))
    if both:
        found = f"stems with both {' and '.join(pair)} there: {', '.join(both)}"
    else:
        names = sorted(path.name for path in folder.iterdir() if path.is_file())
        listing = ", ".join(names[:12]) + (", ..." if len(names) > 12 else "")
        found = f"no stem there has both {' and '.join(pair)}; files: {listing or 'none'}"
    looked = " nor ".join(str(path) for path in wanted)
    raise UserError(f"found neither {looked}; {found}. Correct the stem, the language or `root`")


def _stems(folder: Path, language: str) -> set[str]:
    endings = [f".{language}{suffix}" for suffix in _SUFFIXES]
    return {
        path.name.removesuffix(ending)
        for path in folder.iterdir()
        for ending in endings
        if path.name.endswith(ending) and path.is_file()
    }


def read_pair(source: Path, target: Path, max_words: int | None = None) -> Split:
    """Both sides in lockstep; `max_words` None drops no pair for its length.

    Raises:
        UserError: a file that is missing, damaged, not UTF-8 or of another length than its
            partner, or nothing left of them.
    """
    sources, targets = Lines(), Lines()
    dropped = {"empty": 0, "too_long": 0}
    source_lines = target_lines = 0
    for left, right in zip_longest(text_lines(source), text_lines(target)):
        source_lines += left is not None
        target_lines += right is not None
        if not left or not right:
            dropped["empty"] += 1
        elif max_words is not None and max(left.count(" "), right.count(" ")) >= max_words:
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
    """Normalised lines of one file, plain or .gz; only LF ends one, a byte-order mark is skipped.

    Args:
        path: the file.
        errors: what is done about bytes that are not UTF-8, as for `bytes.decode`.

    Raises:
        UserError: it cannot be read, is damaged or, with `strict`, not UTF-8.
    """
    try:
        with gzip.open(path, "rb") if path.suffix == ".gz" else open(path, "rb") as file:
            for number, raw in enumerate(file, 1):
                yield _decode(raw.removeprefix(_BOM) if number == 1 else raw, path, number, errors)
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise UserError(
            f"{path} is damaged, or no gzip file ({error}): "
            "fetch it again, or drop .gz from its name if it is plain text"
        ) from error
    except OSError as error:
        raise UserError(
            f"{path} cannot be read ({error.strerror}): check the path and its permissions"
        ) from error


def _decode(raw: bytes, path: Path, number: int, errors: str) -> str:
    try:
        return normalise(raw.decode("utf-8", errors))
    except UnicodeDecodeError as error:
        raise UserError(
            f"{path}, line {number}, byte offset {error.start} in that line "
            f"(0x{raw[error.start]:02x}) is not UTF-8: convert the file, for example with "
            "`iconv -f LATIN1 -t UTF-8`, or fetch it again"
        ) from error
