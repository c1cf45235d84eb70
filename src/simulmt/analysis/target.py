"""The folder that results are written into."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryFile

from simulmt.errors import UserError


@contextmanager
def writing(folder: Path) -> Iterator[None]:
    """Turn the OSError of a folder that cannot be written into a UserError."""
    try:
        yield
    except OSError as error:
        raise UserError(
            f"{folder} cannot be written ({error.strerror}); choose another folder: to=DIR"
        ) from error


def check_writable(folder: Path) -> None:
    """Refuse a folder that cannot be written or made, before any long work; leaves no trace.

    Raises:
        UserError: the folder, or the nearest existing folder above it, takes no file.
    """
    with writing(folder), TemporaryFile(dir=_nearest(folder)):
        pass


def _nearest(folder: Path) -> Path:
    for place in (folder, *folder.absolute().parents):
        with suppress(FileNotFoundError):
            place.lstat()
            return place
    return folder
