"""Lightning's trainer of a run, and the choice of a checkpoint once it is trained."""

import logging
import warnings
from pathlib import Path

import pytorch_lightning as pl
import torch
from lightning_fabric.plugins.environments.cluster_environment import ClusterEnvironment
from pytorch_lightning.callbacks import Callback
from pytorch_lightning.loggers import Logger

from simulmt.files.run_directory import AVERAGE, BEST, STEP, step_checkpoints
from simulmt.options import Config
from simulmt.saved.checkpoint import average_checkpoints, load_weights
from simulmt.scoring.split_decoder import SplitDecoder
from simulmt.system.console import console
from simulmt.training.callbacks import OneRun, Patience, SimultaneousDecoding, TrainingRecord
from simulmt.training.checkpoints import WholeFiles, checkpoint_callback
from simulmt.training.datamodule import TranslationData
from simulmt.training.lightning_arguments import FIXED
from simulmt.training.module import TranslationModule
from simulmt.training.plan import TrainingPlan
from simulmt.training.progress import ProgressLines, TrainingBar, print_line

_EXPECTED = (
    "LeafSpec",  # Lightning's own call of what torch has renamed
    "exists and is not empty",  # the checkpoints of the run that resumes
    "smaller than the logging interval",  # an epoch of few batches
    "sync_dist",  # scores are gathered before they are logged: all ranks have the same
    "in eval mode at the start of training",  # the layers of a teacher
    "available but not used",  # a GPU, with trainer=cpu
)
"""Warnings of Lightning that do not concern the user."""
for _name in ("pytorch_lightning", "lightning_fabric"):
    logging.getLogger(_name).setLevel(logging.WARNING)
logging.getLogger("pytorch_lightning.profilers").setLevel(logging.INFO)  # their results


def make_trainer(
    plan: TrainingPlan,
    folder: Path,
    valid: SplitDecoder,
    loggers: list[Logger],
    callbacks: list[Callback],
    config: Config,
    environment: ClusterEnvironment,
) -> pl.Trainer:
    """Return the Lightning trainer of a plan.

    Args:
        plan: length and devices.
        folder: the run directory.
        valid: decodes the development set.
        loggers: the metrics go there.
        callbacks: those that the user has added.
        config: the configuration of this process, and what else must be the same in all.
        environment: has the ranks and addresses of the processes.
    """
    warnings.filterwarnings("ignore", f".*({'|'.join(_EXPECTED)})")
    bar = plan.progress and console.is_interactive
    own: list[Callback] = [
        OneRun(config),
        TrainingRecord(folder),
        SimultaneousDecoding(valid, plan.dal_range, folder),
        checkpoint_callback(folder, Path(BEST).stem, "valid/selection", save_last=False),
        checkpoint_callback(folder, STEP, "step", save_top_k=plan.average, save_last=True),
        ProgressLines(each_minute=not bar),
    ]
    if plan.patience is not None:
        own.append(Patience(plan.patience, folder))
    if bar:
        own.append(TrainingBar())
    return pl.Trainer(
        default_root_dir=folder,
        accelerator=plan.accelerator if torch.cuda.is_available() else "cpu",  # never a Mac's GPU
        devices=plan.devices,
        num_nodes=plan.nodes,
        strategy=plan.strategy,
        precision=plan.precision,
        max_steps=plan.max_updates,
        max_epochs=-1,
        val_check_interval=plan.validate_every * plan.accumulate,
        check_val_every_n_epoch=None,
        accumulate_grad_batches=plan.accumulate,
        log_every_n_steps=plan.log_every,
        enable_progress_bar=bar,
        callbacks=[*own, *callbacks],
        logger=loggers,
        plugins=[WholeFiles(), environment],
        **{**FIXED, "enable_model_summary": False, **(plan.lightning or {})},
    )


def fit(
    trainer: pl.Trainer, module: TranslationModule, data: TranslationData, resume: Path | None
) -> Path | None:
    """Train, and load the chosen checkpoint into the module.

    Returns:
        The chosen checkpoint: the mean of the last `average` ones, or the best; None if arguments
        of Lightning have left out the validations, which write them.

    Raises:
        UserError: a loss, a gradient or a parameter is no longer finite.
    """
    average, folder = module.plan.average, Path(trainer.default_root_dir)
    trainer.precision_plugin.convert_module(module)  # before a checkpoint is loaded into it
    trainer.fit(module, datamodule=data, ckpt_path=resume, weights_only=True)
    if not (folder / BEST).is_file():
        print_line("no validation has written a checkpoint, so there are no test scores")
        return None
    if average > 1 and trainer.is_global_zero:
        average_checkpoints(step_checkpoints(folder)[-average:], folder / AVERAGE)
    validated = len(step_checkpoints(folder))
    trainer.strategy.barrier()
    checkpoint = folder / (AVERAGE if average > 1 else BEST)
    update = load_weights(module.model, checkpoint)
    mean = f"the mean of the last {min(average, validated)} validated checkpoints"
    best = f"update {update:,}, the best on the development set"
    print_line(f"testing {mean if average > 1 else best}")
    return checkpoint
