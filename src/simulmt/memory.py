"""Memory: how much there is, what a training takes at least, and one line when it has run out."""

import math
import os
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import torch

from simulmt.errors import UserError

_LIMITS_OF_CONTAINERS = (
    Path("/sys/fs/cgroup/memory.max"),
    Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"),
)
_RAN_OUT = re.compile(
    "out of memory|can't allocate memory|not enough memory|bad_alloc|ALLOC_FAILED|"
    "can't start new thread|Cannot allocate memory",
    re.IGNORECASE,
)
"""Messages of torch, its libraries and Python."""
_LIBRARIES = 1 << 28  # bytes, of each process
_MARGIN = 0.9  # the other processes may grow
_WANTED = re.compile(r"[Tt]r(?:ied|ying) to allocate ([\d.]+ \w+)")


def memory(accelerator: str, processes: int) -> float:
    """Return the bytes of memory that a process has: a GPU's, or its share; infinity if unknown.

    Args:
        accelerator: `cpu`, `gpu` or `auto`, which is a GPU if there is one.
        processes: the number of processes; on a CPU they share the memory.
    """
    if accelerator != "cpu" and torch.cuda.is_available():
        with suppress(AssertionError, RuntimeError):  # a driver that does not answer
            return float(torch.cuda.get_device_properties(0).total_memory)
        return math.inf
    sizes = [math.inf]
    with suppress(AttributeError, ValueError):  # a system that does not tell
        sizes.append(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    for path in _LIMITS_OF_CONTAINERS:
        with suppress(OSError, ValueError):  # no such limit
            sizes.append(int(path.read_text()))
    return max(min(sizes) / processes - _LIBRARIES, 0.0)


def _available() -> float:
    """Return the bytes that no process uses, swap included; infinity if Linux does not tell."""
    with suppress(OSError):
        pattern = r"^(?:MemAvailable|SwapFree): *(\d+) kB"
        free = re.findall(pattern, Path("/proc/meminfo").read_text(), re.MULTILINE)
        return 1024 * sum(map(int, free)) if free else math.inf
    return math.inf


def check_memory(accelerator: str, processes: int, parameters: int, states: int = 0) -> None:
    """Refuse a training that is too large for the memory.

    A parameter takes 16 bytes: its value, its gradient and Adam's two moments. A number of a
    target token's state takes at least 8 bytes: in the embedding and in the decoder's last state.
    Logits are held for a few tokens at a time, and take less than the parameters they come from.

    Args:
        accelerator: `cpu`, `gpu` or `auto`.
        processes: the number of processes; on a CPU they share the memory.
        parameters: the number of parameters of the model.
        states: the size of the largest batch: its target tokens times the width of the model.

    Raises:
        UserError: the model or the batch is too large.
    """
    there = memory(accelerator, processes)
    for what, needed, remedy in (
        (f"{parameters:,} parameters", 16 * parameters, "the sizes of the model (model.dim, "
         "model.ffn, model.encoder_layers, ...), data.subwords.size or trainer.devices"),
        (f"{states:,} numbers in the states of the largest batch", 8 * states,
         "data.batch_tokens"),
    ):  # fmt: skip
        if needed > there:
            raise UserError(
                f"{what} take {needed / 2**30:,.1f} GiB in training, and each of {processes:,} "
                f"processes has {there / 2**30:,.1f} GiB of memory for them: lower {remedy}"
            )


def ran_out(error: Exception) -> bool:
    """Return whether an error says that there is no more memory."""
    return isinstance(error, MemoryError) or bool(_RAN_OUT.search(str(error)))


@contextmanager
def enough_memory(remedy: str, accelerator: str = "auto", processes: int = 1) -> Iterator[None]:
    """Turn the errors of memory that has run out into one line.

    On Linux an allocation succeeds although there is no memory for it, and the system kills the
    process without a word once it uses what it was given. So allocations beyond the free memory
    are made to fail. GPUs refuse allocations themselves.

    Args:
        remedy: what to lower.
        accelerator: `cpu`, or what is a GPU if there is one.
        processes: the number of processes; on a CPU they share the memory.

    Raises:
        UserError: memory has run out.
    """
    restore = _limit(accelerator, processes)
    try:
        yield
    except (MemoryError, RuntimeError) as error:
        if not ran_out(error):
            raise
        wanted = _WANTED.search(str(error))
        size = f" (an allocation of {wanted[1]} failed)" if wanted else ""
        raise UserError(f"memory has run out{size}: lower {remedy}") from None
    finally:
        restore()


def _limit(accelerator: str, processes: int) -> Callable[[], None]:
    """Limit what this process can allocate; return a function that lifts the limit again."""
    if sys.platform != "linux" or (accelerator != "cpu" and torch.cuda.is_available()):
        return lambda: None
    import resource  # noqa: PLC0415  (Windows has none)

    before = resource.getrlimit(resource.RLIMIT_DATA)
    most = min(memory("cpu", 1) / processes, _MARGIN * _available() / processes)
    others = [int(limit) for limit in before if limit != resource.RLIM_INFINITY]
    resource.setrlimit(resource.RLIMIT_DATA, (int(min(most, *others, sys.maxsize)), before[1]))
    return lambda: resource.setrlimit(resource.RLIMIT_DATA, before)
