"""Settings of the machine for training; benchmarks take the same."""

from __future__ import annotations

import ctypes
import sys

import torch

_TRIM_THRESHOLD, _TOP_PAD, _MMAP_THRESHOLD = -1, -2, -3  # of malloc.h


def prepare_machine() -> None:
    """Have the C library keep freed memory, and the processor take tiny numbers as zero.

    By default glibc returns a large tensor's memory to the system, which hands it out again page by
    page, each filled with zeros and at the price of a fault: a tenth of a small model's step. Freed
    blocks are kept instead, up to a gibibyte each (older versions: 32 MiB).

    An expected alignment falls by the probability of stopping at every position. Far from where a
    head stands it underflows, and some processors, Intel's among them, are very slow with float32
    numbers below 1.2e-38.
    """
    torch.set_flush_denormal(True)
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None) if sys.platform == "linux" else None
    if mallopt is None:  # another C library
        return
    mallopt(_TRIM_THRESHOLD, 2**31 - 1)
    mallopt(_TOP_PAD, 2**26)
    if mallopt(_MMAP_THRESHOLD, 2**30) == 0:  # refused
        mallopt(_MMAP_THRESHOLD, 2**25)
