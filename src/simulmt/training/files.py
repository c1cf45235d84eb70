"""Checkpoints that are written whole, and the lock of a run directory."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from filelock import FileLock, Timeout
from pytorch_lightning.plugins.io import TorchCheckpointIO

from simulmt.errors import UserError
from simulmt.processes import is_first_process
from simulmt.run_directory import LOCK, replacing


class WholeFiles(TorchCheckpointIO):
    """Writes a checkpoint beside its place and then moves it there: none is ever half written.

    Lightning's own plugin goes through the system's temporary folder. If that folder is on another
    disk, the file is copied from there, not moved.
    """

    def save_checkpoint(
        self, checkpoint: dict[str, Any], path: str | os.PathLike[str], storage_options: Any = None
    ) -> None:
        """Write the checkpoint."""
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        with replacing(Path(path)) as unfinished:
            torch.save(checkpoint, unfinished)


@contextmanager
def alone_in(folder: Path) -> Iterator[None]:
    """Lock a run directory; the system releases the lock however the process ends.

    Raises:
        UserError: another process trains there.
    """
    if not is_first_process():  # the first process locks the directory for all
        yield
        return
    folder.mkdir(parents=True, exist_ok=True)
    lock = FileLock(folder / LOCK, timeout=0)
    try:
        lock.acquire()
    except Timeout:
        raise UserError(f"another process is training in {folder}; wait for it") from None
    except OSError:  # a file system without locks
        pass
    try:
        yield
    finally:
        lock.release()
