"""A training run: its length and devices, Lightning's trainer, and the choice of a checkpoint."""

import logging
import os
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import pytorch_lightning as pl
import torch
from annotated_types import Ge
from lightning_fabric.plugins.environments.cluster_environment import ClusterEnvironment
from pytorch_lightning.callbacks import Callback
from pytorch_lightning.loggers import Logger

from simulmt.errors import UserError
from simulmt.files.run_directory import AVERAGE, BEST, STEP, step_checkpoints
from simulmt.options import Config, Count, Few, Natural
from simulmt.saved.checkpoint import average_checkpoints, load_weights
from simulmt.scoring.split_decoder import SplitDecoder
from simulmt.system.console import console
from simulmt.training.callbacks import OneRun, Patience, SimultaneousDecoding, TrainingRecord
from simulmt.training.checkpoints import WholeFiles, checkpoint_callback
from simulmt.training.compiled import check_compiler
from simulmt.training.datamodule import TranslationData
from simulmt.training.launch import RESUMES
from simulmt.training.module import TranslationModule
from simulmt.training.progress import ProgressLines, TrainingBar, print_line

_EXPECTED = (
    "LeafSpec",  # Lightning's own call of what torch has renamed
    "exists and is not empty",  # the checkpoints of the run that resumes
    "smaller than the logging interval",  # an epoch of few batches
    "sync_dist",  # scores are gathered before they are logged: all ranks have the same
    "in eval mode at the start of training",  # those of a teacher
    "available but not used",  # a GPU, with trainer=cpu
)
"""Warnings of Lightning that do not concern the user."""
for _name in ("pytorch_lightning", "lightning_fabric"):
    logging.getLogger(_name).setLevel(logging.WARNING)


@dataclass(frozen=True)
class TrainingPlan:
    """The options of `conf/trainer`, which explains each of them."""

    accelerator: Literal["cpu", "gpu", "auto"]
    devices: Few
    nodes: Few
    threads: Count | None
    strategy: Literal["auto", "ddp"]
    precision: Literal["32-true", "64-true", "bf16-mixed"]
    max_updates: Count
    validate_every: Count
    accumulate: Few
    clip: Annotated[float, Ge(0)]
    average: Count
    skip: Natural
    patience: Count | None
    dal_range: tuple[float, float] | None
    log_every: Count
    progress: bool
    compile: bool

    def __post_init__(self) -> None:
        if self.max_updates % self.validate_every:
            raise UserError(
                f"trainer.max_updates ({self.max_updates}) is not a multiple of "
                f"trainer.validate_every ({self.validate_every}), so the last "
                f"{self.max_updates % self.validate_every} updates would never be validated"
            )
        if self.dal_range and (self.dal_range[0] > self.dal_range[1] or self.average > 1):
            raise UserError(
                f"trainer.dal_range={[*self.dal_range]} with trainer.average={self.average}: give "
                "the range as [least,most], and set trainer.average=1, since it selects one "
                "checkpoint"
            )

    @property
    def processes(self) -> int:
        """The number of processes, on all machines."""
        return self.nodes * self.devices

    def check_machine(self) -> None:
        """Reject what this machine lacks: a GPU, processes, threads or a compiler."""
        if self.accelerator == "gpu" and not torch.cuda.is_available():
            raise UserError("trainer.accelerator=gpu, but no GPU was found; choose trainer=cpu")
        gpus = torch.cuda.device_count() if self.accelerator != "cpu" else 0
        cores = os.cpu_count() or 1
        devices = (gpus, "GPUs") if gpus else (max(cores, 2), "cores")
        for name, chosen, (most, what) in (
            ("threads", self.threads or 1, (cores, "cores")),
            ("devices", self.devices, devices),
        ):
            if chosen > most:
                raise UserError(
                    f"trainer.{name}={chosen}, but this machine has {most} {what}; use {most} or "
                    "fewer"
                )
        if self.compile:
            check_compiler(self.accelerator)


def make_trainer(
    plan: TrainingPlan,
    folder: Path,
    valid: SplitDecoder,
    loggers: list[Logger],
    config: Config,
    environment: ClusterEnvironment,
) -> pl.Trainer:
    """Return the Lightning trainer of a plan.

    Args:
        plan: length and devices.
        folder: the run directory.
        valid: decodes the development set.
        loggers: the metrics go there.
        config: the configuration of this process, and what else must be the same in all.
        environment: tells the ranks and addresses of the processes.
    """
    for expected in _EXPECTED:
        warnings.filterwarnings("ignore", f".*{expected}")
    bar = plan.progress and console.is_terminal
    return pl.Trainer(
        default_root_dir=folder,
        accelerator=plan.accelerator,
        devices=plan.devices,
        num_nodes=plan.nodes,
        strategy=plan.strategy,
        precision=plan.precision,
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
        enable_progress_bar=bar,
        callbacks=_callbacks(plan, folder, valid, config, bar),
        logger=loggers,
        plugins=[WholeFiles(), environment],
    )


def _callbacks(
    plan: TrainingPlan, folder: Path, valid: SplitDecoder, config: Config, bar: bool
) -> list[Callback]:
    callbacks: list[Callback] = [
        OneRun(config),
        TrainingRecord(folder),
        SimultaneousDecoding(valid, plan.dal_range, folder),
        checkpoint_callback(folder, Path(BEST).stem, "valid/selection", save_last=False),
        checkpoint_callback(folder, STEP, "step", save_top_k=plan.average, save_last=True),
        ProgressLines(each_minute=not bar),
    ]
    if plan.patience is not None:
        callbacks.append(Patience("valid/selection", mode="max", patience=plan.patience))
    if bar:
        callbacks.append(TrainingBar())
    return callbacks


def fit(
    trainer: pl.Trainer,
    module: TranslationModule,
    data: TranslationData,
    resume: Path | None,
    folder: Path,
    average: int,
) -> Path:
    """Train, and load the chosen checkpoint into the module.

    Returns:
        The chosen checkpoint: the mean of the last `average` ones, or the best.

    Raises:
        KeyboardInterrupt: Ctrl-C has ended the training.
        UserError: a loss, a gradient or a parameter is no longer finite.
    """
    try:
        trainer.fit(module, datamodule=data, ckpt_path=resume, weights_only=True)
    except SystemExit as end:
        if not isinstance(end.__context__, KeyboardInterrupt):  # which Lightning replaces
            raise
        raise KeyboardInterrupt(f"interrupted at update {trainer.global_step}; {RESUMES}") from None
    if average > 1 and trainer.is_global_zero:
        average_checkpoints(step_checkpoints(folder)[-average:], folder / AVERAGE)
    trainer.strategy.barrier()
    checkpoint = folder / (AVERAGE if average > 1 else BEST)
    update = load_weights(module.model, checkpoint)
    mean = f"the mean of the last {average} validated checkpoints"
    best = f"update {update:,}, the best on the development set"
    print_line(f"testing {mean if average > 1 else best}")
    return checkpoint
