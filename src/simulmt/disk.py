"""Files that cannot be written: one line with the file, the reason and the remedy."""

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryFile

from simulmt.errors import UserError

_REMEDY = "make room there, or choose another folder"
_FULL = (errno.ENOSPC, errno.EDQUOT)


@contextmanager
def writing(place: Path, remedy: str = _REMEDY) -> Iterator[None]:
    """Turn the OSError of a file or folder that cannot be written into a UserError."""
    try:
        yield
    except (OSError, RuntimeError) as error:
        cause: BaseException | None = error  # torch raises a RuntimeError after its file's OSError
        while cause is not None and not isinstance(cause, OSError):
            cause = cause.__cause__ or cause.__context__
        if cause is None:
            raise
        reason = cause.strerror or cause
        raise UserError(f"{place} cannot be written ({reason}); {remedy}") from None


def explain(error: OSError) -> str:
    """Return a line for an error of the system that no part of the program has explained."""
    reason = error.strerror or error
    if error.filename is None:
        return f"the output cannot be written ({reason}); {_REMEDY}"
    remedy = _REMEDY if error.errno in _FULL else "check the path and its permissions"
    return f"{error.filename}: {reason}; {remedy}"


def check_writable(folder: Path, remedy: str = _REMEDY) -> None:
    """Reject a folder that cannot be written or made, before any long work; leaves no trace.

    Raises:
        UserError: the folder, or the nearest existing folder above it, takes no file.
    """
    with writing(folder, remedy):
        there = next(place for place in (folder, *folder.absolute().parents) if place.exists())
        TemporaryFile(dir=there).close()
