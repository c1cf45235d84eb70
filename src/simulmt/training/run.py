"""A run from its first update to its scores: fit, choose the checkpoint, decode the test set."""

from __future__ import annotations

import logging
import math
import sys
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

import pytorch_lightning as pl
import torch
from pytorch_lightning.callbacks import (
    Callback,
    EarlyStopping,
    ModelCheckpoint,
)
from pytorch_lightning.loggers import Logger

from simulmt.decoding.instance import Instance, write_instances
from simulmt.errors import UserError
from simulmt.run_directory import (
    AVERAGE,
    BEST,
    CHECKPOINTS,
    INSTANCES,
    STEP,
    step_checkpoints,
)
from simulmt.saved.checkpoint import average_checkpoints, load_weights
from simulmt.scoring.score import score
from simulmt.scoring.scores import Decoding, Scores
from simulmt.training import report
from simulmt.training.callbacks import Decoder, Progress, SimultaneousDecoding
from simulmt.training.datamodule import TranslationData
from simulmt.training.files import WholeFiles
from simulmt.training.module import TranslationModule
from simulmt.training.ranks import TERMINATED, OneEnd, SameConfiguration, kill_started_at_exit
from simulmt.training.record import TrainingRecord

_CHOICES = {
    "accelerator": ("cpu", "gpu", "auto"),
    "strategy": ("auto", "ddp"),
    "precision": ("32-true", "64-true", "bf16-mixed"),
}
_COUNTS = ("devices", "max_updates", "validate_every", "accumulate", "average", "log_every")


@dataclass(frozen=True)
class Plan:
    """How long and on what to train; `conf/trainer` says what each entry means."""

    accelerator: str
    devices: int
    strategy: str
    precision: str
    max_updates: int
    validate_every: int
    accumulate: int
    clip: float
    average: int
    patience: int | None
    dal_range: tuple[float, float] | None
    log_every: int
    progress: bool

    def __post_init__(self) -> None:
        for name, known in _CHOICES.items():
            if getattr(self, name) not in known:
                raise UserError(
                    f"trainer.{name} is {getattr(self, name)!r}; choose one of {', '.join(known)}"
                )
        for name in _COUNTS:
            if getattr(self, name) < 1:
                raise UserError(f"trainer.{name} is {getattr(self, name)}; it must be at least 1")
        if self.patience is not None and self.patience < 1:
            raise UserError(f"trainer.patience is {self.patience}; at least 1, or null for no end")
        if not 0 <= self.clip < math.inf:
            raise UserError(f"trainer.clip is {self.clip}; a norm, or 0 for none")
        if self.max_updates % self.validate_every:
            raise UserError(
                f"trainer.max_updates is {self.max_updates}, no multiple of trainer.validate_every "
                f"({self.validate_every}): the last updates would be lost; change one of them"
            )
        if self.dal_range is not None:
            least, most = self.dal_range
            if not -math.inf < least <= most < math.inf or self.average > 1:
                raise UserError(
                    f"trainer.dal_range is {[least, most]} with trainer.average={self.average}; it "
                    "runs from least to most and chooses one checkpoint: set average to 1"
                )
        if self.accelerator == "gpu" and not torch.cuda.is_available():
            raise UserError("trainer=gpu, but no GPU was found; choose trainer=cpu")
        if self.accelerator != "cpu" and 0 < (gpus := torch.cuda.device_count()) < self.devices:
            raise UserError(
                f"trainer.devices is {self.devices}, this machine has GPUs: {gpus}; choose as many "
                "at the most, or trainer.accelerator=cpu"
            )


logging.getLogger("pytorch_lightning").setLevel(logging.WARNING)


class Patience(EarlyStopping):
    """Lightning's, but a run that had stopped does not go on when it resumes with the same one."""

    def on_train_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Stop again at once."""
        trainer.should_stop = trainer.should_stop or self.wait_count >= self.patience

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """The patience is that of the configuration."""
        super().load_state_dict(state_dict | {"patience": self.patience})


def make_trainer(
    plan: Plan, folder: Path, valid: Decoder, loggers: list[Logger], config: Mapping[str, Any]
) -> pl.Trainer:
    """The Lightning trainer of a plan, writing into the run directory."""
    checkpoints = folder / CHECKPOINTS
    callbacks: list[Callback] = [
        SameConfiguration(config),
        OneEnd(),
        SimultaneousDecoding(valid, plan.dal_range),
        TrainingRecord(folder),
        ModelCheckpoint(
            checkpoints,
            filename=Path(BEST).stem,
            monitor="valid/selection",
            mode="max",
            save_last=False,
            enable_version_counter=False,
        ),
        ModelCheckpoint(
            checkpoints,
            filename=STEP,
            auto_insert_metric_name=False,
            monitor="step",
            mode="max",
            save_top_k=plan.average,
            save_last=True,
            enable_version_counter=False,
        ),
    ]
    if plan.patience is not None:
        callbacks.append(
            Patience("valid/selection", mode="max", patience=plan.patience, strict=True)
        )
    if plan.progress:
        callbacks.append(Progress())
    return pl.Trainer(
        default_root_dir=folder,
        accelerator=plan.accelerator,
        devices=plan.devices,
        strategy=plan.strategy,
        precision=plan.precision,  # type: ignore[arg-type]
        max_steps=plan.max_updates,
        max_epochs=-1,
        val_check_interval=plan.validate_every * plan.accumulate,
        check_val_every_n_epoch=None,
        num_sanity_val_steps=0,
        accumulate_grad_batches=plan.accumulate,
        gradient_clip_val=plan.clip or None,
        log_every_n_steps=plan.log_every,
        use_distributed_sampler=False,
        enable_model_summary=False,
        enable_progress_bar=plan.progress,
        callbacks=callbacks,
        logger=loggers,
        plugins=[WholeFiles()],
    )


def fit(
    trainer: pl.Trainer,
    module: TranslationModule,
    data: TranslationData,
    resume: Path | None,
    folder: Path,
    average: int,
) -> Path:
    """Train, and leave the chosen weights in the module.

    Returns:
        The checkpoint that was chosen: the mean of the last `average` ones, or the best.
    """
    with warnings.catch_warnings():
        for expected in (
            "LeafSpec",  # Lightning's own call of what torch has renamed
            "exists and is not empty",  # the checkpoints of the run that resumes
            "smaller than the logging interval",  # an epoch of few batches
            "sync_dist",  # scores are gathered before they are logged: all ranks have the same
        ):
            warnings.filterwarnings("ignore", message=f".*{expected}.*")
        try:
            trainer.fit(module, datamodule=data, ckpt_path=resume, weights_only=True)
        except SystemExit as end:  # how Lightning ends after Ctrl-C, and `OneEnd` after SIGTERM
            _end(trainer, end)
    if average > 1 and trainer.is_global_zero:
        average_checkpoints(step_checkpoints(folder)[-average:], folder / AVERAGE)
    trainer.strategy.barrier()
    chosen = folder / (AVERAGE if average > 1 else BEST)
    load_weights(module.model, chosen)
    return chosen


def _end(trainer: pl.Trainer, end: SystemExit) -> NoReturn:
    """Say how to go on with a training that a signal has ended.

    Raises:
        SystemExit: after SIGTERM. It is no UserError: a sweep that lives on may try again.
        UserError: after Ctrl-C.
    """
    goes_on = (
        f"at update {trainer.global_step}; the same command with ckpt_path=last goes on from the "
        "last validation"
    )
    if end.code == TERMINATED:
        if trainer.is_global_zero:
            print(f"error: terminated {goes_on}", file=sys.stderr, flush=True)
        kill_started_at_exit(trainer)
        raise end
    if not trainer.interrupted:
        raise end
    raise UserError(f"interrupted {goes_on}") from None


def test(
    trainer: pl.Trainer,
    module: TranslationModule,
    decoder: Decoder,
    folder: Path,
    checkpoint: Path,
) -> tuple[Scores, list[Instance]]:
    """Decode the test set over all processes; the instances go into the run directory."""
    device, rank, world_size = (
        trainer.strategy.root_device,
        trainer.global_rank,
        trainer.world_size,
    )
    module.to(device)
    instances = decoder(module.model, device, rank, world_size, report.watch)
    decoding = Decoding.by(decoder.search, checkpoint, "test")
    scores = score(instances, decoder.split.needs, decoding)
    if trainer.is_global_zero:
        write_instances(folder / INSTANCES, instances)
    return scores, instances
