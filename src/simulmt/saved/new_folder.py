"""A folder that is written whole or not at all."""

import os
import shutil
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from simulmt.errors import UserError


@contextmanager
def new_folder(folder: Path) -> Iterator[Path]:
    """Give an unfinished folder, which becomes `folder` once the caller has filled it.

    Args:
        folder: new or empty; created if absent.

    Raises:
        UserError: the folder is not empty, or cannot be written.
    """
    folder = Path(os.path.realpath(folder))  # an empty one may be a link
    unfinished = folder.with_name(f".{folder.name}.{uuid.uuid4().hex[:8]}.tmp")
    try:
        if folder.exists() and any(folder.iterdir()):
            raise UserError(f"{folder} is not empty; give a new folder, or empty that one")
        unfinished.mkdir(parents=True)
        yield unfinished
        if folder.exists():
            folder.rmdir()  # a folder that is no longer empty stays
        unfinished.rename(folder)
    except OSError as error:
        raise UserError(
            f"{folder} cannot be written ({error.strerror or error}); name a new folder on a disk "
            "that has room for the model"
        ) from None
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)
