"""The processes of a run: their ranks and their gathered values."""

from typing import TypeVar

from torch import distributed

T = TypeVar("T")


def rank_and_world_size() -> tuple[int, int]:
    """Return the rank of this process, from 0, and the number of processes of the run."""
    if distributed.is_available() and distributed.is_initialized():
        return distributed.get_rank(), distributed.get_world_size()
    return 0, 1


def gather(value: T) -> list[T]:
    """Return the values of all processes, by rank; each process has to call this function."""
    values = [value] * rank_and_world_size()[1]
    if len(values) > 1:
        distributed.all_gather_object(values, value)
    return values
