"""The processes of a run have the same configuration, end together, and speak with one voice."""

import os
import signal
import socket
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from subprocess import Popen
from typing import Any

import pytorch_lightning as pl
from pytorch_lightning.strategies.launchers import _SubprocessScriptLauncher

from simulmt.ending import BAD_INPUT, INTERRUPTED, TERMINATED, end, killed_by, tell
from simulmt.errors import UserError
from simulmt.options import Config, flat_options
from simulmt.processes import gather, is_first_process, rank_and_world_size
from simulmt.run_directory import MARK

_OF_THE_FIRST = 12.0
"""Seconds that a process with an error waits for the end of the first one, which speaks for all."""
_OF_ANOTHER = 5.0
"""Seconds in which the first process sees that another one has ended."""
_OF_A_DISK = 70.0
"""Seconds after which a network's file system has shown each machine a new file."""


class OneRun(pl.Callback):
    """Refuses to start processes that have different configurations, or run directories.

    Every process reads its own configuration. If these differed, the processes would silently add
    up gradients of different objectives.

    Args:
        config: the configuration of this process.
        folder: the run directory.
    """

    def __init__(self, config: Config, folder: Path) -> None:
        self._options = flat_options(config)
        self._folder = folder

    def setup(self, trainer: pl.Trainer, pl_module: pl.LightningModule, stage: str) -> None:
        """Compare them."""
        refuse_differences(gather(self._options))
        seen = gather((socket.gethostname(), _sees(self._folder / MARK)))
        refuse_another_disk(seen, self._folder)


def refuse_another_disk(seen: Sequence[tuple[str, bool]], folder: Path) -> None:
    """Refuse to train where a rank does not see what the first process has written.

    Args:
        seen: the machine of each rank, and whether it sees the run directory.
        folder: the run directory.

    Raises:
        UserError: raised on every rank, naming the machine and the folder.
    """
    for rank, (host, is_there) in enumerate(seen):
        if not is_there:
            raise UserError(
                f"rank {rank}, on {host}, does not see what rank 0 has written into {folder}: put "
                "the run on a disk that all machines share (hydra.run.dir=FOLDER)"
            )


def _sees(path: Path) -> bool:
    """Return whether a file is there; a network's file system may show it after a while."""
    late = time.monotonic() + _OF_A_DISK
    while not path.is_file() and time.monotonic() < late:
        time.sleep(1)
    return path.is_file()


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


@contextmanager
def one_voice() -> Iterator[None]:
    """Delay an error until it is known whether this process has to report it.

    The first process speaks for all; the others end with it (`simulmt.ending`), so that an error
    that all of them meet is reported once. Nor is it an error of the first process that a
    collective operation fails, or never ends, because another process has been killed.
    """
    try:
        yield
    except Exception as error:
        several = rank_and_world_size()[1] > 1 or os.environ.get("WORLD_SIZE", "1") != "1"
        status = BAD_INPUT if isinstance(error, UserError) else 1
        if not is_first_process():
            if status == BAD_INPUT:  # which others may not meet
                tell(status, str(error))
            time.sleep(_OF_THE_FIRST)
        elif several and status != BAD_INPUT:  # perhaps not connected yet
            time.sleep(_OF_ANOTHER)
        tell(status, "")
        raise
    except BaseException as error:
        tell(INTERRUPTED if isinstance(error, KeyboardInterrupt) else 1, "")
        raise
    tell(0, "")


def end_together(trainer: pl.Trainer) -> None:
    """End this process as soon as one of those that Lightning starts for the run has failed.

    Lightning would kill this process without a word, and its handler of SIGTERM broadcasts the
    signal in the middle of a collective operation, so that the processes wait for one another for
    ever. Both are replaced. No agreement is needed, because a run resumes from its last validation
    however it ends.
    """
    connector = trainer._signal_connector
    register = connector._register_signal

    def leave(signum: signal.Signals, handler: Any) -> None:
        if signum != signal.SIGTERM:
            register(signum, handler)

    setattr(connector, "_register_signal", leave)  # noqa: B010  (a method)
    launcher = trainer.strategy.launcher
    if isinstance(launcher, _SubprocessScriptLauncher):
        threading.Thread(target=_watch, args=(launcher,), daemon=True).start()


def _watch(launcher: _SubprocessScriptLauncher) -> None:
    """Take the processes from Lightning, which looks every five seconds, and watch them."""
    watched: list[Popen[Any]] = []
    while not any(process.poll() for process in watched):
        time.sleep(0.2)
        while launcher.procs:
            watched.append(launcher.procs.pop(0))
    here, status = next((n, p.returncode) for n, p in enumerate(watched, 1) if p.returncode)
    rank = launcher.cluster_environment.node_rank() * launcher.num_processes + here
    if status > 0:  # it has said why
        end(status, "")
    elif status == -signal.SIGTERM:  # before its first line, from where on it hands the signal on
        end(TERMINATED, "terminated")
    else:
        end(128 - status, f"rank {rank} was {killed_by(-status)}")
