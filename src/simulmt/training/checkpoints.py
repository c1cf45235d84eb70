"""The checkpoints of a run: written whole, and remembered by file name."""

import os
from pathlib import Path
from typing import Any

import torch
from pytorch_lightning.callbacks import ModelCheckpoint
from pytorch_lightning.plugins.io import TorchCheckpointIO

from simulmt.errors import UserError
from simulmt.files.run_directory import CHECKPOINTS
from simulmt.options import Config
from simulmt.saved.checkpoint import read_checkpoint
from simulmt.system.disk import replacing


class WholeFiles(TorchCheckpointIO):
    """Writes a checkpoint beside its place, then moves it there, so that none is ever half written.

    Lightning's plugin writes into the system's temporary folder. If that folder is on another disk,
    the file is copied from there, not moved.
    """

    def save_checkpoint(
        self, checkpoint: Config, path: str | os.PathLike[str], storage_options: object = None
    ) -> None:
        """Write the checkpoint."""
        with replacing(Path(path)) as unfinished:
            with unfinished.open("wb") as file:
                torch.save(checkpoint, file)
            if types := torch.serialization.get_unsafe_globals_in_checkpoint(unfinished):
                raise UserError(f"callbacks: a state holds {types[0]}; keep plain values there")

    def load_checkpoint(
        self, path: str | os.PathLike[str], *_: object, **__: object
    ) -> dict[str, object]:
        """Return a checkpoint, checked."""
        return dict(read_checkpoint(Path(path)))


class Checkpoints(ModelCheckpoint):
    """Lightning's checkpoints, remembered by file name: a run may resume where it was moved to."""

    def state_dict(self) -> dict[str, object]:
        """Return the state without the folder."""
        return _in_folder(None, super().state_dict())

    def load_state_dict(self, state_dict: Config) -> None:
        """Restore the state in the folder of this run, unless the checkpoints are elsewhere.

        If more checkpoints were kept than `save_top_k`, the worst are deleted.
        """
        state = _in_folder(self.dirpath, state_dict)
        if not os.path.isfile(str(state["best_model_path"])):  # it is of another run
            return
        super().load_state_dict(state)
        ranked = sorted(self.best_k_models, key=lambda path: float(self.best_k_models[path]))
        for path in ranked[: -self.save_top_k]:
            Path(path).unlink(missing_ok=True)
            del self.best_k_models[path]
            self.kth_best_model_path = ranked[-self.save_top_k]
            self.kth_value = self.best_k_models[self.kth_best_model_path]


def _in_folder(folder: str | os.PathLike[str] | None, state: Config) -> dict[str, object]:
    """Return the state of a ModelCheckpoint in another folder; None for the names alone."""

    def place(path: str) -> str:  # an empty path stands for none
        return path and os.path.join(folder or "", os.path.basename(path))

    paths = ("best_model_path", "kth_best_model_path", "last_model_path")
    scores = {place(path): score for path, score in state["best_k_models"].items()}
    moved = {name: place(state[name]) for name in paths}
    return {**state, **moved, "best_k_models": scores, "dirpath": folder}


def checkpoint_callback(folder: Path, name: str, monitor: str, **more: Any) -> Checkpoints:
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
