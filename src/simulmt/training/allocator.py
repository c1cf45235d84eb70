"""Memory that training gives back is kept for the next step."""

from __future__ import annotations

import ctypes
import sys

_TRIM_THRESHOLD, _TOP_PAD, _MMAP_THRESHOLD = -1, -2, -3  # of malloc.h
_MOST = 2**30


def keep_freed_memory() -> bool:
    """Have the C library's allocator keep freed blocks below a gibibyte.

    By default it returns a large tensor's memory to the system, which hands it out again a page at
    a time, each filled with zeros and at the price of a fault: a tenth of a small model's step.

    Returns:
        Whether there was such an allocator: glibc's.
    """
    if not sys.platform.startswith("linux"):
        return False
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is None:
        return False
    settings = ((_MMAP_THRESHOLD, _MOST), (_TRIM_THRESHOLD, 2 * _MOST - 1), (_TOP_PAD, 2**26))
    return all(mallopt(name, value) == 1 for name, value in settings)
