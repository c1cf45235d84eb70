"""One line for memory that has run out; it names the options to lower."""

import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path

import torch

from simulmt.errors import UserError

_RAN_OUT = re.compile(
    "out of memory|can't allocate memory|not enough memory|bad_alloc|ALLOC_FAILED|"
    "can't start new thread|Cannot allocate memory",
    re.IGNORECASE,
)
"""Messages of torch, its libraries and Python."""
_WANTED = re.compile(r"[Tt]r(?:ied|ying) to allocate ([\d.]+ \w+)")
_MARGIN = 0.9  # other programs may grow


@contextmanager
def enough_memory(remedy: str, accelerator: str = "auto", processes: int = 1) -> Iterator[None]:
    """Turn out-of-memory errors into a UserError.

    On Linux an allocation succeeds even if there is no memory for it, and the system kills the
    process without a message once it uses that memory. So allocations beyond the free memory are
    made to fail. GPUs reject such allocations themselves.

    Args:
        remedy: what to lower.
        accelerator: `cpu`, or anything else for the GPU if there is one.
        processes: the number of processes; on a CPU they share the memory.

    Raises:
        UserError: memory has run out.
    """
    on_gpu = accelerator != "cpu" and torch.cuda.is_available()
    limits = sys.platform == "linux" and not on_gpu
    try:
        with _limit(int(_MARGIN * _free() / processes)) if limits else nullcontext():
            yield
    except (MemoryError, RuntimeError) as error:
        if not isinstance(error, MemoryError) and not _RAN_OUT.search(str(error)):
            raise
        wanted = _WANTED.search(str(error))
        size = f" (an allocation of {wanted[1]} failed)" if wanted else ""
        raise UserError(f"memory has run out{size}: lower {remedy}") from None


def _free() -> float:
    """Return the bytes that no process uses, swap included, or the limit of a container."""
    text = Path("/proc/meminfo").read_text()
    free = 1024 * sum(map(int, re.findall(r"(?:MemAvailable|SwapFree): *(\d+)", text)))
    with suppress(OSError, ValueError):  # "max" in a container without a limit
        free = min(free, int(Path("/sys/fs/cgroup/memory.max").read_text()))
    return free


@contextmanager
def _limit(size: int) -> Iterator[None]:
    """Limit what this process can allocate, in bytes."""
    import resource  # noqa: PLC0415  (Windows has none)

    before = resource.getrlimit(resource.RLIMIT_DATA)
    lowest = min([size, *(limit for limit in before if limit != resource.RLIM_INFINITY)])
    resource.setrlimit(resource.RLIMIT_DATA, (lowest, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, before)
