"""Settings of memory and processor for training; the benchmarks use them, too."""

import ctypes
import sys

import torch

_TRIM_THRESHOLD, _TOP_PAD, _MMAP_THRESHOLD = -1, -2, -3  # of malloc.h


def prepare_machine(threads: int | None = None) -> None:
    """Make the C library keep freed memory, and the processor treat tiny numbers as zero.

    By default glibc returns a large tensor's memory to the system. The system zeroes each page
    again at its next use, after a page fault: a tenth of a small model's step. With these settings
    glibc keeps freed blocks of up to a gibibyte (older glibc: 32 MiB).

    An expected alignment decays with the distance from the head's position until it underflows.
    Some processors, Intel's among them, are very slow with float32 numbers below 1.2e-38.

    Args:
        threads: the threads of torch's operators; None leaves the number to torch.
    """
    if threads is not None:
        torch.set_num_threads(threads)
    torch.set_flush_denormal(True)
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None) if sys.platform == "linux" else None
    if mallopt is None:  # another C library
        return
    mallopt(_TRIM_THRESHOLD, 2**31 - 1)
    mallopt(_TOP_PAD, 2**26)
    if mallopt(_MMAP_THRESHOLD, 2**30) == 0:  # rejected
        mallopt(_MMAP_THRESHOLD, 2**25)
