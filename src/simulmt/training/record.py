"""The record of a training (size, length, speed), written when the training ends."""

from __future__ import annotations

import statistics
import time
from pathlib import Path

import pytorch_lightning as pl
import torch
from pytorch_lightning.utilities import rank_zero_only
from torch import nn

from simulmt.run_directory import TRAINING, Training, read_columns, write_json


def count_parameters(model: nn.Module) -> int:
    """Return the number of parameters; a shared one counts once."""
    return sum(parameter.numel() for parameter in model.parameters())


class TrainingRecord(pl.Callback):
    """Writes the record of a completed training into the run directory.

    The speed is the median over the logged updates, including those before the run was resumed.

    Args:
        folder: the run directory.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._started = 0.0
        self._resumed_at: int | None = None

    def on_fit_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Start the clock: a resumed run without updates left has no `on_train_start`."""
        self._started = time.perf_counter()
        self._resumed_at = None

    def on_train_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Start the clock again, after the checkpoint has been restored."""
        self._started = time.perf_counter()
        self._resumed_at = trainer.global_step

    @rank_zero_only
    def on_fit_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Write the record."""
        device = trainer.strategy.root_device
        speeds = [speed for (speed,) in read_columns(self.folder, "train/tokens_per_s")]
        record = Training(
            parameters=count_parameters(pl_module.model),  # type: ignore[arg-type]
            updates=trainer.global_step,
            resumed_at=trainer.global_step if self._resumed_at is None else self._resumed_at,
            seconds=round(time.perf_counter() - self._started, 2),
            tokens_per_second=statistics.median(speeds) if speeds else None,
            threads=torch.get_num_threads(),
            processes=trainer.world_size,
            device=torch.cuda.get_device_name(device) if device.type == "cuda" else device.type,
        )
        write_json(self.folder / TRAINING, record)
