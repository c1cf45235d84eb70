"""The processes of a run: their ranks and their gathered values.

Processes that prepare data import this module, so it imports torch, which takes a second, only
where the process has done so.
"""

import sys
from typing import TypeVar

from simulmt.ending import is_first

T = TypeVar("T")


def is_first_process() -> bool:
    """Return True if this process prints and writes for the run."""
    return rank_and_world_size()[0] == 0 if _connected() else is_first()


def rank_and_world_size() -> tuple[int, int]:
    """Return the rank of this process, from 0, and the number of processes of the run."""
    if not _connected():
        return 0, 1
    from torch import distributed  # noqa: PLC0415

    return distributed.get_rank(), distributed.get_world_size()


def gather(value: T) -> list[T]:
    """Return the values of all processes, by rank; each process has to call this function."""
    if not _connected():
        return [value]
    from torch import distributed  # noqa: PLC0415

    values = [value] * distributed.get_world_size()
    distributed.all_gather_object(values, value)
    return values


def _connected() -> bool:
    distributed = sys.modules.get("torch.distributed")
    return bool(distributed and distributed.is_available() and distributed.is_initialized())
