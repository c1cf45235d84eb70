"""The processes of a run: their ranks and their gathered values."""

from typing import TypeVar

from torch import distributed

T = TypeVar("T")


def rank_and_world_size() -> tuple[int, int]:
    """Return the rank of this process, from 0, and the number of processes of the run."""
    if not _connected():
        return 0, 1
    return distributed.get_rank(), distributed.get_world_size()


def gather(value: T) -> list[T]:
    """Return the values of all processes, by rank; each process has to call this function."""
    if not _connected():
        return [value]
    values = [value] * distributed.get_world_size()
    distributed.all_gather_object(values, value)
    return values


def _connected() -> bool:
    return distributed.is_available() and distributed.is_initialized()
