"""The processes of a run: their ranks, their gathered values, their common end."""

import os
import signal
import threading
import time
from functools import cache
from typing import Any, TypeVar

from torch import distributed

T = TypeVar("T")
_RANKS = ("RANK", "LOCAL_RANK", "SLURM_PROCID", "JSM_NAMESPACE_RANK")
"""Environment variables by which launchers number processes, in Lightning's order."""


def is_first_process() -> bool:
    """Return whether this process prints and writes for the run."""
    if _connected():
        return distributed.get_rank() == 0
    return next((os.environ[name] for name in _RANKS if name in os.environ), "0") == "0"


def rank_and_world_size() -> tuple[int, int]:
    """Return the rank of this process, from 0, and the number of processes of the run."""
    return (distributed.get_rank(), distributed.get_world_size()) if _connected() else (0, 1)


def gather(value: T) -> list[T]:
    """Return the values of all processes, by rank; each process has to call this function."""
    if not _connected():
        return [value]
    values: list[Any] = [None] * distributed.get_world_size()
    distributed.all_gather_object(values, value)
    return values


@cache  # one thread is enough
def end_with(parent: int) -> None:
    """Kill this process as soon as its parent has ended, for whatever reason.

    Otherwise a sweep that is restarted after a kill would meet its own runs in training, and a
    process alone on a GPU would wait ten minutes for the others.

    Args:
        parent: process id.
    """

    def wait() -> None:
        while os.getppid() == parent:
            time.sleep(0.2)
        os.kill(os.getpid(), signal.SIGKILL)

    threading.Thread(target=wait, daemon=True).start()


def _connected() -> bool:
    return distributed.is_available() and distributed.is_initialized()
