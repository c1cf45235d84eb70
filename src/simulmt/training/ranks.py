"""All processes of a run must have been told the same, and end together."""

from __future__ import annotations

import atexit
import os
import signal
import threading
import time
from collections.abc import Mapping, Sequence
from types import FrameType
from typing import Any, NoReturn

import pytorch_lightning as pl
from torch import distributed

from simulmt.errors import UserError
from simulmt.options import flat_options

TERMINATED = 128 + signal.SIGTERM
"""Exit status of a run that SIGTERM has ended, as shells have it."""


class SameConfiguration(pl.Callback):
    """Compares the configurations of all processes before the first update.

    Every process reads its configuration by itself. With different ones they would still add up
    their gradients, without any error.

    Args:
        config: of this process.
    """

    def __init__(self, config: Mapping[str, Any]) -> None:
        self.options = flat_options(config)

    def setup(self, trainer: pl.Trainer, pl_module: pl.LightningModule, stage: str) -> None:
        """Gather and compare; the processes know one another by now, and nothing else is done."""
        if not (distributed.is_available() and distributed.is_initialized()):
            return
        everyone: list[dict[str, Any]] = [{} for _ in range(distributed.get_world_size())]
        distributed.all_gather_object(everyone, self.options)
        refuse_differences(everyone)


def refuse_differences(everyone: Sequence[Mapping[str, Any]]) -> None:
    """Compare the flat configurations of all ranks.

    Raises:
        UserError: they differ; raised on every rank, naming the keys and values.
    """
    keys = dict.fromkeys(key for options in everyone for key in options)
    differing = []
    for key in keys:
        values = [options.get(key) for options in everyone]
        if any(value != values[0] for value in values):
            said = ", ".join(f"{value!r} on rank {rank}" for rank, value in enumerate(values))
            differing.append(f"{key} is {said}")
    if differing:
        raise UserError(
            f"the processes of this run were given different configurations: {'; '.join(differing)}"
            ". Give all the same command, and leave conf/ alone while a run starts"
        )


class OneEnd(pl.Callback):
    """SIGTERM ends a run at once, with all the processes that Lightning has started for it.

    Lightning's own handler broadcasts the signal to the others, between whatever collectives the
    training is at: the processes then wait for different ones, for ever. There is nothing to agree
    on, since a run goes on from its last validation however it ends. So the process that the user
    started ends, and those that it has started leave SIGTERM to it: they stay, lest it waits for
    one of them in a collective, until it kills them (`kill_started_at_exit`) or has gone.
    """

    def __init__(self) -> None:
        self._started = False

    def setup(self, trainer: pl.Trainer, pl_module: pl.LightningModule, stage: str) -> None:
        """Find out whether another process of the run started this one; if so, end with it.

        Left alone on a GPU, it would wait for ten minutes.
        """
        if distributed.is_available() and distributed.is_initialized():
            pids = [0] * distributed.get_world_size()
            distributed.all_gather_object(pids, os.getpid())
            self._started = (parent := os.getppid()) in pids
            if self._started:
                threading.Thread(target=_end_with, args=(parent,), daemon=True).start()

    def on_train_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Replace Lightning's handler; after the training it puts back what was there before."""
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, signal.SIG_IGN if self._started else _terminate)


def kill_started_at_exit(trainer: pl.Trainer) -> None:
    """Have the processes that Lightning has started killed when this one exits, but not before.

    Lightning watches them, and within five seconds of their end kills this one too, which may
    still have its loggers to close.
    """
    if trainer.strategy.launcher is not None:
        atexit.register(trainer.strategy.launcher.kill, signal.SIGKILL)


def _terminate(signum: int, frame: FrameType | None) -> NoReturn:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # `timeout` sends two
    raise SystemExit(TERMINATED)


def _end_with(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(1)
    os.kill(os.getpid(), signal.SIGKILL)
