"""Memory that training gives back is kept for the next step."""

from __future__ import annotations

import ctypes
import sys

_TRIM_THRESHOLD, _TOP_PAD, _MMAP_THRESHOLD = -1, -2, -3  # of malloc.h
_LARGE, _MOST = (2**30, 2**25), 2**31 - 1  # older versions take 32 MiB for a threshold at most


def keep_freed_memory() -> bool:
    """Have the C library's allocator keep freed blocks, up to a gibibyte each where it can.

    By default it returns a large tensor's memory to the system, which hands it out again a page at
    a time, each filled with zeros and at the price of a fault: a tenth of a small model's step.

    Returns:
        Whether it is one that does so: glibc's.
    """
    if not sys.platform.startswith("linux"):
        return False
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is None:
        return False
    keeps = mallopt(_TRIM_THRESHOLD, _MOST) == 1 and mallopt(_TOP_PAD, 2**26) == 1
    return keeps and any(mallopt(_MMAP_THRESHOLD, size) == 1 for size in _LARGE)
