"""Callbacks: the progress bar, simultaneous decoding of the development set, and the record."""

import math
import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytorch_lightning as pl
import torch
from pytorch_lightning.callbacks import RichProgressBar
from pytorch_lightning.utilities import rank_zero_only
from torch import nn

from simulmt.decoding.instance import Instance
from simulmt.files.metrics import read_columns
from simulmt.files.run_directory import SAMPLES, STEP, TRAINING, Training
from simulmt.scoring.conventions import UNITS
from simulmt.scoring.score import score
from simulmt.scoring.scores import Scores
from simulmt.scoring.split_decoder import SplitDecoder
from simulmt.system.disk import replacing, write_json
from simulmt.training.lines import listed
from simulmt.training.loggers import sample, show_samples
from simulmt.training.module import TranslationModule

SAMPLED = 5
"""The number of sentences of the development set that every validation shows."""


class TrainingBar(RichProgressBar):
    """Lightning's progress bar with the figures that lines show."""

    def get_metrics(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule
    ) -> dict[str, int | str | float | dict[str, float]]:
        """Return the number of updates and the figures, as one text."""
        done = f"{trainer.global_step}/{trainer.max_steps}"
        return {"update": ", ".join([done, *listed(trainer.progress_bar_metrics)])}

    @property
    def total_train_batches(self) -> int | float:
        """The batches of an epoch.

        Lightning's own number is that of the updates left, which the number of batches exceeds in
        a run that resumes within an epoch.
        """
        return self.trainer.num_training_batches

    def on_train_epoch_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Show the number of the epoch; Lightning's own text ends in "/-2" without a last one."""
        super().on_train_epoch_start(trainer, pl_module)
        if self.progress is not None and self.train_progress_bar_id is not None:
            epoch = f"epoch {trainer.current_epoch + 1}"
            self.progress.update(self.train_progress_bar_id, description=epoch)


@dataclass(eq=False)
class SimultaneousDecoding(pl.Callback):
    """Decodes the development set at every validation, and logs quality and latency.

    The logged values are `valid/BLEU`, `valid/chrF`, `valid/word/AL` and so on, and
    `valid/selection` (see `selection`), which is greatest at the best checkpoint.

    Args:
        decoder: decodes the development set.
        dal_range: the range of word-level DAL, (least, most), for the best checkpoint; None for
            any.
        folder: the run directory.
    """

    decoder: SplitDecoder
    dal_range: tuple[float, float] | None
    folder: Path

    def on_validation_epoch_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Decode and score the development set, and log the scores."""
        assert isinstance(pl_module, TranslationModule)
        instances = self.decoder(pl_module.model, pl_module.device)
        scores = score(instances, None)
        in_force = pl_module.objective.at_full_weight(trainer.global_step)
        chosen_by = {"valid/selection": selection(scores, self.dal_range, in_force)}
        pl_module.log_dict(flat(scores, "valid") | chosen_by, prog_bar=True)
        if trainer.is_global_zero:
            _show_samples(trainer, self.folder / SAMPLES, instances[:SAMPLED])


def _show_samples(trainer: pl.Trainer, folder: Path, instances: Sequence[Instance]) -> None:
    """Write sample translations into the run directory, and show them."""
    rows = [("source", "reference", "prediction", "delays"), *map(sample, instances)]
    folder.mkdir(exist_ok=True)
    text = "".join("\t".join(row) + "\n" for row in rows)
    name = STEP.format(step=trainer.global_step)
    with replacing(folder / f"{name}.tsv") as unfinished:
        unfinished.write_text(text, encoding="utf-8")
    show_samples(trainer.loggers, "valid/samples", instances, trainer.global_step - 1)


class TrainingRecord(pl.Callback):
    """Writes the record of a completed training into the run directory.

    The speed is the median over the logged updates, including those before the run was resumed.

    Args:
        folder: the run directory.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._started = time.perf_counter()
        self._resumed_at: int | None = None  # stays None if a resumed run has no updates left

    def on_train_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Start the clock, after the checkpoint has been restored."""
        self._started = time.perf_counter()
        self._resumed_at = trainer.global_step

    @rank_zero_only
    def on_fit_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Write the record."""
        device = trainer.strategy.root_device
        logged = read_columns(self.folder, "train/tokens_per_s")
        speeds = [speed for (speed,) in logged if math.isfinite(speed)]
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


def count_parameters(model: nn.Module) -> int:
    """Return the number of parameters; a shared one counts once."""
    return sum(parameter.numel() for parameter in model.parameters())


def flat(scores: Scores, split: str) -> dict[str, float]:
    """Return the scores by names such as `test/BLEU` and `test/word/DAL`; NaN for no value."""
    figures = {}
    for unit in UNITS:
        for name, figure in scores["paper", unit].items():
            place = split if name in ("BLEU", "chrF") else f"{split}/{unit}"  # same in both units
            figures[f"{place}/{name}"] = float(figure)
    return figures


def selection(scores: Scores, dal_range: tuple[float, float] | None, in_force: bool) -> float:
    """Return the value that the best checkpoint, and a sweeper, maximise.

    Args:
        scores: of the development set.
        dal_range: the range of word-level DAL (Ma et al. 2020 select by it); None for any.
        in_force: whether the latency weights have reached their values.

    Returns:
        BLEU; outside the range, -1 minus the distance from the range. Before the weights are in
        force, the value is at most -1000: such a model has not yet learnt to be quick.
    """
    figures = scores["paper", "word"]
    bleu, dal = float(figures["BLEU"]), figures["DAL"].value
    if dal_range is not None:
        least, most = dal_range
        outside = math.inf if dal is None else max(least - dal, dal - most, 0.0)
        bleu = -1 - min(outside, 900.0) if outside else bleu
    return bleu if in_force else bleu - 1100
