"""A folder that is written whole or not at all."""

import os
import shutil
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from simulmt.errors import UserError
from simulmt.system.disk import writing


@contextmanager
def new_folder(folder: Path) -> Iterator[Path]:
    """Yield an unfinished folder, which becomes `folder` once the caller has filled it.

    Args:
        folder: new or empty; created if absent.

    Raises:
        UserError: the folder is not empty, or cannot be written.
    """
    folder = Path(os.path.realpath(folder))  # an empty one may be a link
    unfinished = folder.with_name(f".{folder.name}.{uuid.uuid4().hex[:8]}.tmp")
    with writing(folder):
        if folder.exists() and any(folder.iterdir()):
            raise UserError(f"{folder} is not empty; give a new folder, or empty that one")
        try:
            unfinished.mkdir(parents=True)
            yield unfinished
            unfinished.replace(folder)  # fails if it is no longer empty
        finally:
            shutil.rmtree(unfinished, ignore_errors=True)
