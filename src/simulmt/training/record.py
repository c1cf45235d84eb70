"""What a training was: its size, its length and its speed, as `training.json`."""

from __future__ import annotations

import csv
import json
import statistics
import time
from pathlib import Path

import pytorch_lightning as pl
import torch
from pytorch_lightning.utilities import rank_zero_only
from torch import nn


def count_parameters(model: nn.Module) -> int:
    """How many numbers its parameters hold; a shared one counts once."""
    return sum(parameter.numel() for parameter in model.parameters())


class TrainingRecord(pl.Callback):
    """Writes `training.json` into the run directory when a training ends, not when it breaks off.

    `updates` counts from the very first one. `seconds`, validations included, and `threads`,
    `processes` and `device` are those of the last start; `resumed_at` is the update at which that
    was, 0 unless the run was resumed. `tokens_per_second`, target subwords of all processes, is
    the median of what `metrics.csv` holds: of the earlier starts too if they wrote into the same
    directory, and None if the training was too short to log any.

    Args:
        folder: the run directory.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._started = 0.0
        self._resumed_at: int | None = None

    def on_fit_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """For a resumed run that has no update left, whose training does not start."""
        self._started = time.perf_counter()
        self._resumed_at = None

    def on_train_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Start the clock; a checkpoint has been restored by now."""
        self._started = time.perf_counter()
        self._resumed_at = trainer.global_step

    @rank_zero_only
    def on_fit_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Write the file."""
        device = trainer.strategy.root_device
        cuda = device.type == "cuda"
        record = {
            "parameters": count_parameters(pl_module.model),  # type: ignore[arg-type]
            "updates": trainer.global_step,
            "resumed_at": (trainer.global_step if self._resumed_at is None else self._resumed_at),
            "seconds": round(time.perf_counter() - self._started, 2),
            "tokens_per_second": _median(self.folder / "metrics.csv", "train/tokens_per_s"),
            "threads": torch.get_num_threads(),
            "processes": trainer.world_size,
            "device": torch.cuda.get_device_name(device) if cuda else device.type,
        }
        text = json.dumps(record, indent=2) + "\n"
        (self.folder / "training.json").write_text(text, encoding="utf-8")


def _median(metrics: Path, name: str) -> float | None:
    with metrics.open(newline="") as file:
        found = [float(row[name]) for row in csv.DictReader(file) if row.get(name)]
    return statistics.median(found) if found else None
