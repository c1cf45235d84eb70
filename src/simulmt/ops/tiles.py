"""Work on many rows, 16 at a time, shared out among threads.

Threads: a kernel releases the GIL and is handed ranges of tiles by a pool of plain Python threads,
as many as `torch.get_num_threads()` says. numba's own `prange` is not used: its default layer
aborts the process when two threads enter it at a time, its OpenMP layer when a process that
has used it forks. Here nothing is shared between calls, so calls from autograd's threads are safe,
and a forked process (a DataLoader's worker) makes a pool of its own, or none: workers have
one thread.
"""

from __future__ import annotations

import functools
import itertools
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import torch

LANES = 16  # rows in a tile
GRAIN = 2**15  # elements below which a second thread costs more than it gives


@functools.cache
def _pool(process: int) -> ThreadPoolExecutor:
    """Threads come into being as they are needed, and wait for more."""
    return ThreadPoolExecutor(os.cpu_count(), thread_name_prefix=f"simulmt-ops-{process}")


def tiles_of(rows: Any) -> Any:
    """How many tiles hold so many rows."""
    return -(-rows // LANES)


def run_tiles(kernel: Callable[..., None], rows: int, elements: int, *arguments: Any) -> None:
    """Run `kernel` over all tiles of `rows`, in as many threads as pay for `elements`."""
    tiles = tiles_of(rows)
    threads = min(torch.get_num_threads(), tiles, 1 + elements // GRAIN)
    if threads <= 1:
        kernel(*arguments, 0, tiles)
        return
    cuts = [tiles * part // threads for part in range(threads + 1)]
    pool = _pool(os.getpid())
    parts = [pool.submit(kernel, *arguments, a, b) for a, b in itertools.pairwise(cuts)]
    for part in parts:
        part.result()
