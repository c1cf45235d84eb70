"""The processes of a run: their ranks and their gathered values."""

from typing import Any, TypeVar

from torch import distributed

from simulmt.ending import numbered_first

T = TypeVar("T")


def is_first_process() -> bool:
    """Return whether this process prints and writes for the run."""
    return distributed.get_rank() == 0 if _connected() else numbered_first()


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


def _connected() -> bool:
    return distributed.is_available() and distributed.is_initialized()
