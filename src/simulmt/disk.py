"""Disks that take no more: one line with the file, the reason, what is free, and the remedy."""

import errno
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryFile

from simulmt.errors import UserError

_FULL = (errno.ENOSPC, errno.EDQUOT)
_REMEDY = "make room there, or choose another folder"


@contextmanager
def writing(place: Path, remedy: str = _REMEDY) -> Iterator[None]:
    """Turn the OSError of a file or folder that cannot be written into a UserError."""
    try:
        yield
    except (OSError, RuntimeError) as error:
        refused = os_error(error)  # torch raises a RuntimeError after its file's OSError
        if refused is None:
            raise
        raise UserError(f"{place} cannot be written ({reason(refused, place)}); {remedy}") from None


def os_error(error: BaseException | None) -> OSError | None:
    """Return the first OSError of an exception and its causes; None if there is none."""
    while error is not None and not isinstance(error, OSError):
        error = error.__cause__ or error.__context__
    return error


def reason(error: OSError, place: Path) -> str:
    """Return why the system refused a file, and what is free if it needs more than that."""
    text = error.strerror or str(error)
    return f"{text}: it needs more than the {_mib(_free(place))} free" if _is_full(error) else text


def explain(error: OSError, nameless: str = "the output") -> str:
    """Return a line for an error of the system that no part of the program has explained.

    Args:
        error: the error.
        nameless: what the error is about if it has no file.
    """
    if error.filename is None:
        return f"{nameless} cannot be written ({error.strerror or error}); {_REMEDY}"
    remedy = _REMEDY if _is_full(error) else "check the path and its permissions"
    return f"{error.filename}: {reason(error, Path(str(error.filename)))}; {remedy}"


def check_writable(folder: Path, remedy: str = _REMEDY) -> None:
    """Refuse a folder that cannot be written or made, before any long work; leaves no trace.

    Raises:
        UserError: the folder, or the nearest existing folder above it, takes no file.
    """
    with writing(folder, remedy), TemporaryFile(dir=_nearest(folder)):
        pass


def check_space(folder: Path, needed: int, what: str, remedy: str) -> None:
    """Refuse work whose files the disk of a folder cannot take.

    Args:
        folder: where the files will be; it may be absent.
        needed: their size in bytes.
        what: the files, in words.
        remedy: what else the user can do.

    Raises:
        UserError: the disk has less free.
    """
    if needed > (free := _free(folder)):
        raise UserError(
            f"{_mib(needed)} are needed for {what}, and {folder.absolute()} has {_mib(free)} free: "
            f"make room there, {remedy}"
        )


def _is_full(error: OSError) -> bool:
    return error.errno in _FULL


def _free(place: Path) -> int:
    """Return the free bytes of the disk of a place, which may be absent."""
    return shutil.disk_usage(_nearest(place)).free


def _nearest(folder: Path) -> Path:
    for place in (folder, *folder.absolute().parents):
        with suppress(FileNotFoundError):
            place.lstat()
            return place
    return folder


def _mib(size: int) -> str:
    return f"{size / 2**20:,.1f} MiB"
