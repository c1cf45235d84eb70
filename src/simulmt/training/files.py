"""What makes a run survive a kill: whole checkpoints, and one training in a directory at a time."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from pytorch_lightning.plugins.io import TorchCheckpointIO

from simulmt.errors import UserError
from simulmt.processes import is_first_process


class WholeFiles(TorchCheckpointIO):
    """Writes a checkpoint beside its place and then moves it there, so that none is ever half.

    Lightning's own goes through the system's temporary folder, from where a file is copied, not
    moved, if that is on another disk.
    """

    def save_checkpoint(
        self, checkpoint: dict[str, Any], path: str | os.PathLike[str], storage_options: Any = None
    ) -> None:
        """Write the file."""
        place = Path(path)
        place.parent.mkdir(parents=True, exist_ok=True)
        unfinished = place.with_suffix(".tmp")
        with unfinished.open("wb") as file:
            torch.save(checkpoint, file)
            file.flush()
            os.fsync(file.fileno())
        unfinished.replace(place)


@contextmanager
def alone_in(folder: Path) -> Iterator[None]:
    """Hold a run directory; the system lets go of it when the process ends, however it ends.

    Raises:
        UserError: another process trains there.
    """
    if not is_first_process():  # its first process holds it for all
        yield
        return
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / ".lock").open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise UserError(f"another process is training in {folder}; wait for it") from None
        except OSError:  # a file system without locks
            pass
        yield
