"""The checkpoints of a run: written whole, and remembered by file name."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

import torch
from pytorch_lightning.callbacks import ModelCheckpoint
from pytorch_lightning.plugins.io import TorchCheckpointIO

from simulmt.run_directory import CHECKPOINTS, replacing
from simulmt.saved.checkpoint import read_checkpoint

Content: TypeAlias = dict[str, Any]
"""What Lightning puts into a checkpoint."""


class WholeFiles(TorchCheckpointIO):
    """Writes a checkpoint beside its place and then moves it there: none is ever half written.

    Lightning's own plugin goes through the system's temporary folder. If that folder is on another
    disk, the file is copied from there, not moved.
    """

    def save_checkpoint(
        self, checkpoint: Content, path: str | os.PathLike[str], storage_options: Any = None
    ) -> None:
        """Write the checkpoint."""
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        with replacing(Path(path)) as unfinished, unfinished.open("wb") as file:
            torch.save(checkpoint, file)

    def load_checkpoint(self, path: str | os.PathLike[str], *_: Any, **__: Any) -> Content:
        """Return a checkpoint, checked."""
        return dict(read_checkpoint(Path(path)))


class Checkpoints(ModelCheckpoint):
    """Lightning's checkpoints, remembered by file name: a run may resume where it was moved to."""

    def state_dict(self) -> Content:
        """Return the state without the folder."""
        return _placed(super().state_dict(), lambda path: Path(path).name) | {"dirpath": None}

    def load_state_dict(self, state_dict: Content) -> None:
        """Restore the state in the folder of this run."""
        folder = Path(str(self.dirpath))
        state = _placed(state_dict, lambda path: str(folder / Path(path).name))
        super().load_state_dict(state | {"dirpath": self.dirpath})


def _placed(state: Content, place: Callable[[str], str]) -> Content:
    """Return the state of a ModelCheckpoint with other paths; an empty path stands for none."""
    paths = ("best_model_path", "kth_best_model_path", "last_model_path")
    moved = {name: state[name] and place(state[name]) for name in paths}
    scores = {place(path): score for path, score in state["best_k_models"].items()}
    return state | moved | {"best_k_models": scores}


def keep(folder: Path, name: str, monitor: str, **more: Any) -> Checkpoints:
    """Return a callback that keeps the checkpoints where `monitor` is greatest."""
    return Checkpoints(
        folder / CHECKPOINTS,
        filename=name,
        monitor=monitor,
        mode="max",
        auto_insert_metric_name=False,
        enable_version_counter=False,
        **more,
    )
