"""Files: written whole, read as records, with a one-line error for what cannot be written.

Neither a reader nor a restart after a kill ever finds half a file.
"""

import csv
import errno
import gzip
import json
import os
import sys
import uuid
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import fields
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any, TypeVar

from simulmt.errors import UserError
from simulmt.options import convert

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

T = TypeVar("T")
UNFINISHED = ".tmp"
"""Ends the name of a file that is unfinished, or was left by a kill."""

_REMEDIES = {
    **dict.fromkeys((errno.ENOSPC, errno.EDQUOT), "make room there"),
    errno.EFBIG: "raise the limit of file sizes, which `ulimit -f` shows",
    **dict.fromkeys((errno.EMFILE, errno.ENFILE), "raise the limit, which `ulimit -n` shows"),
}
_ELSEWHERE = "choose another folder"


@contextmanager
def writing(place: Path, elsewhere: str = _ELSEWHERE) -> Iterator[None]:
    """Turn the OSError of a file or folder that cannot be written into a UserError.

    Args:
        place: the file or folder.
        elsewhere: how the user can choose another place.
    """
    try:
        yield
    except (OSError, RuntimeError) as error:
        cause: BaseException | None = error  # torch raises a RuntimeError after its file's OSError
        while cause is not None and not isinstance(cause, OSError):
            cause = cause.__cause__ or cause.__context__
        if cause is None:
            raise
        reason = cause.strerror or cause
        raise UserError(
            f"{place} cannot be written ({reason}); {_remedy(cause)}, or {elsewhere}"
        ) from None


def describe_error(error: OSError) -> str:
    """Return a line for an error of the system that no other message explains."""
    reason, remedy = error.strerror or error, f"{_remedy(error)}, or {_ELSEWHERE}"
    if error.filename is None:
        return f"the output cannot be written ({reason}); {remedy}"
    return f"{error.filename}: {reason}; {remedy}"


def _remedy(error: OSError) -> str:
    if error.filename and os.path.islink(error.filename):
        return f"make the folder to which the link points, {os.readlink(error.filename)}"
    return _REMEDIES.get(error.errno or 0, "check the path and its permissions")


def check_writable(folder: Path, elsewhere: str = _ELSEWHERE) -> None:
    """Check, before any long work, that a folder can be written or made; leaves no trace.

    Raises:
        UserError: no file can be made in it, or in the nearest existing folder above it.
    """
    with writing(folder, elsewhere):
        there = next(place for place in (folder, *folder.absolute().parents) if place.exists())
        TemporaryFile(dir=there).close()


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Yield a path beside `path` to write to, and move that file to `path` once it is written.

    The folder is made if it is absent.

    Raises:
        UserError: the file cannot be written; an earlier file at `path` stays as it was.
    """
    unfinished = path.with_name(f"{path.name}.{uuid.uuid4().hex}{UNFINISHED}")
    with writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            yield unfinished
            with unfinished.open("rb+") as file:
                os.fsync(file.fileno())  # or a power cut could leave an empty file under the name
            unfinished.replace(path)
        finally:
            unfinished.unlink(missing_ok=True)


def raw_lines(path: Path) -> Iterator[bytes]:
    """Yield the lines of a file as they are, decompressed if its ending names a compression.

    Raises:
        UserError: the file cannot be read or is corrupt.
    """
    openers: dict[str, Callable[..., Any]] = {".gz": gzip.open, ".zst": zstd.open}
    try:
        with openers.get(path.suffix, open)(path, "rb") as file:
            yield from file
    except (gzip.BadGzipFile, EOFError, zlib.error, zstd.ZstdError) as error:
        raise UserError(
            f"{path} is corrupt, or not compressed ({error}): fetch it again, or drop "
            f"{path.suffix} from its name if it is plain text"
        ) from error
    except OSError as error:
        why = f"{path} cannot be read ({error.strerror})"
        raise UserError(f"{why}: check path and permissions") from error


def write_text(path: Path, text: str) -> None:
    """Write a text in UTF-8, with its own line ends on every system."""
    with replacing(path) as unfinished:
        unfinished.write_text(text, encoding="utf-8", newline="\n")


def write_json(path: Path, content: object) -> None:
    """Write plain values or a dataclass as indented JSON, the same bytes for the same content."""
    text = json.dumps(content, default=_plain, indent=2, ensure_ascii=False, allow_nan=False)
    write_text(path, f"{text}\n")


def write_rows(rows: Sequence[Mapping[str, object]], path: Path) -> Path:
    """Write a CSV file with a column for each key, numbers in full precision; return its path."""
    columns = dict.fromkeys(column for row in rows for column in row)
    with replacing(path) as new, new.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, columns, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    return path


def read_json(path: Path) -> dict[str, Any]:
    """Return the object that a JSON file holds.

    Raises:
        UserError: the file cannot be read, or holds no object.
    """
    return read_record(path, dict[str, Any])


def read_record(path: Path, kind: type[T]) -> T:
    """Return the dataclass that `write_json` wrote.

    Raises:
        UserError: the file cannot be read, or does not hold the fields of the dataclass.
    """
    try:
        if path.is_fifo():
            raise OSError("a named pipe")
        return convert(json.loads(path.read_bytes()), kind)
    except (OSError, ValueError, TypeError, KeyError, RecursionError) as error:
        raise UserError(
            f"{path} is absent or corrupt ({type(error).__name__}: {error}); remove it, and run "
            "the program that writes it again"
        ) from None


def _plain(value: Any) -> dict[str, Any]:
    """Return a mapping, or the fields of a dataclass that do not hold their default."""
    if isinstance(value, Mapping):
        return dict(value)
    given = ((field, getattr(value, field.name)) for field in fields(value))
    return {field.name: each for field, each in given if each != field.default}
