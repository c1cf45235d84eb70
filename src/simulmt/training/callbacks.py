"""Callbacks: decoding of the development set, the record, early stopping, one configuration."""

import math
import statistics
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pytorch_lightning as pl
import torch
from pytorch_lightning.callbacks import EarlyStopping
from pytorch_lightning.utilities import rank_zero_only
from torch import nn

from simulmt.errors import UserError
from simulmt.files.metrics import read_columns
from simulmt.files.run_directory import BEST, SAMPLES, STEP, TRAINING, Training
from simulmt.options import Config, flat_options
from simulmt.scoring.conventions import UNITS
from simulmt.scoring.score import score
from simulmt.scoring.scores import Scores
from simulmt.scoring.split_decoder import SplitDecoder
from simulmt.system.disk import read_record, write_json, write_text
from simulmt.system.ending import handle_signals
from simulmt.system.processes import gather
from simulmt.training.board import sample
from simulmt.training.loggers import boards
from simulmt.training.module import TranslationModule

SAMPLED = 5
"""The number of sentences of the development set that every validation shows."""


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
        instances = self.decoder(pl_module.model)
        scores = score(instances, None)
        in_force = pl_module.objective.at_full_weight(trainer.global_step - 1)
        chosen_by = {"valid/selection": selection(scores, self.dal_range, in_force)}
        pl_module.log_dict(flat_scores(scores, "valid") | chosen_by, prog_bar=True)
        if trainer.is_global_zero:
            samples = instances[:SAMPLED]
            rows = [("source", "reference", "prediction", "delays"), *map(sample, samples)]
            text = "".join("\t".join(row) + "\n" for row in rows)
            name = STEP.format(step=trainer.global_step)
            write_text(self.folder / SAMPLES / f"{name}.tsv", text)
            for board in boards(trainer.loggers):
                board.show_samples("valid/samples", samples, trainer.global_step - 1)


class TrainingRecord(pl.Callback):
    """Writes the record of a completed training run into the run directory.

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
        began = trainer.global_step if self._resumed_at is None else self._resumed_at
        parts: tuple[float, int | None] = (time.perf_counter() - self._started, began)
        with suppress(UserError):  # no record of the part before
            before = read_record(self.folder / TRAINING, Training)
            if before.updates == began > 0:
                parts = parts[0] + before.seconds, before.seconds_since
        record = Training(
            parameters=count_parameters(pl_module.model),  # type: ignore[arg-type]
            updates=trainer.global_step,
            resumed_at=began,
            seconds=round(parts[0], 2),
            tokens_per_second=statistics.median(speeds) if speeds else None,
            threads=torch.get_num_threads(),
            processes=trainer.world_size,
            device=torch.cuda.get_device_name(device) if device.type == "cuda" else device.type,
            seconds_since=parts[1],
        )
        write_json(self.folder / TRAINING, record)


class Patience(EarlyStopping):
    """Lightning's early stopping; a run that has stopped early stops again when it resumes.

    Args:
        patience: the validations without improvement.
        folder: the run directory.
    """

    def __init__(self, patience: int, folder: Path) -> None:
        super().__init__("valid/selection", mode="max", patience=patience)
        self._best = folder / BEST

    def on_train_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Stop again at once."""
        trainer.should_stop = trainer.should_stop or self.wait_count >= self.patience

    def load_state_dict(self, state_dict: dict[str, object]) -> None:
        """Restore the state, if it is of this folder; the configuration gives the patience."""
        if self._best.is_file():
            super().load_state_dict(state_dict | {"patience": self.patience})


@dataclass(eq=False)
class OneRun(pl.Callback):
    """Rejects processes that have different configurations.

    Every process reads its own configuration. If these differed, the processes would silently add
    up gradients of different objectives.

    Args:
        config: the configuration of this process, and what else must be the same in all.
    """

    config: Config

    def setup(self, trainer: pl.Trainer, pl_module: pl.LightningModule, stage: str) -> None:
        """Compare them."""
        check_same(gather(flat_options(self.config)))

    def on_train_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """End on SIGTERM at once; Lightning's handler would wait for the other processes."""
        handle_signals()


def check_same(configurations: Sequence[Mapping[str, object]]) -> None:
    """Reject flat configurations, one for each rank, that differ.

    Raises:
        UserError: the configurations differ; raised on every rank, naming the keys.
    """
    first, *others = configurations
    pairs = ((one, key) for one in others for key in {**first, **one})
    differing = dict.fromkeys(key for one, key in pairs if one.get(key) != first.get(key))
    if differing:
        raise UserError(
            "the processes of this run have different configurations: they differ in "
            f"{', '.join(differing)}. Start all of them with the same command, text and models, "
            "and do not edit conf/ while a run starts"
        )


def count_parameters(model: nn.Module) -> int:
    """Return the number of parameters; a shared one counts once."""
    return sum(parameter.numel() for parameter in model.parameters())


def flat_scores(scores: Scores, split: str) -> dict[str, float]:
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
        in_force: True once the latency weights have reached their values.

    Returns:
        BLEU; outside the range, -1 minus the distance from the range. Before the weights are in
        force, the value is at most -1000: the model has not yet learned to be fast.
    """
    figures = scores["paper", "word"]
    bleu, dal = float(figures["BLEU"]), figures["DAL"].value
    if dal_range is not None:
        least, most = dal_range
        outside = math.inf if dal is None else max(least - dal, dal - most, 0.0)
        bleu = -1 - min(outside, 900.0) if outside else bleu
    return bleu if in_force else bleu - 1100
