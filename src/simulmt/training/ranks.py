"""The processes of a run have the same configuration, and end together."""

import atexit
import os
import signal
import threading
from collections.abc import Mapping, Sequence
from types import FrameType
from typing import Any, NoReturn

import pytorch_lightning as pl

from simulmt.errors import UserError
from simulmt.options import flat_options
from simulmt.processes import end_with, gather

TERMINATED = 128 + signal.SIGTERM
"""Exit status of a run that SIGTERM has ended, by the convention of shells."""


class OneRun(pl.Callback):
    """Makes one run of its processes: they have the same configuration, and end together.

    Every process reads its own configuration. If these differed, the processes would silently add
    up gradients of different objectives.

    SIGTERM ends the process that the user started, with all the processes that Lightning has
    started for the run. Lightning's own handler broadcasts the signal to the other processes, in
    the middle of a collective operation: the processes then wait for one another for ever. No
    agreement is needed, because a run resumes from its last validation however it ends.

    The processes that Lightning started ignore SIGTERM, since the first process may wait for them
    in a collective operation. They stay until the first process kills them
    (`kill_started_at_exit`) or has ended.

    Args:
        config: the configuration of this process.
    """

    def __init__(self, config: Mapping[str, Any]) -> None:
        self._options = flat_options(config)

    def setup(self, trainer: pl.Trainer, pl_module: pl.LightningModule, stage: str) -> None:
        """Compare the configurations, and end with the process that has started this one."""
        refuse_differences(gather(self._options))
        self._started = (parent := os.getppid()) in gather(os.getpid())
        if self._started:
            end_with(parent)

    def on_train_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Replace Lightning's handler; after training Lightning restores the one before its own."""
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, signal.SIG_IGN if self._started else _terminate)


def refuse_differences(configurations: Sequence[Mapping[str, Any]]) -> None:
    """Refuse flat configurations, one for each rank, that differ.

    Raises:
        UserError: the configurations differ; raised on every rank, naming keys and values.
    """
    differences = []
    for key in dict.fromkeys(key for options in configurations for key in options):
        values = [options.get(key) for options in configurations]
        if any(value != values[0] for value in values):
            listed = ", ".join(f"{value!r} on rank {rank}" for rank, value in enumerate(values))
            differences.append(f"{key} is {listed}")
    if differences:
        raise UserError(
            "the processes of this run have different configurations: "
            f"{'; '.join(differences)}. Give all the same command, and leave conf/ alone while a "
            "run starts"
        )


def kill_started_at_exit(trainer: pl.Trainer) -> None:
    """Kill the processes that Lightning has started when this process exits, and not before.

    Lightning kills this process within five seconds of the end of those processes, and this process
    may still have loggers to close.
    """
    if trainer.strategy.launcher is not None:
        atexit.register(trainer.strategy.launcher.kill, signal.SIGKILL)


def _terminate(signum: int, frame: FrameType | None) -> NoReturn:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # `timeout` sends two
    raise SystemExit(TERMINATED)
