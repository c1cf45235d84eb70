"""Many rows in tiles of 16, shared out among threads.

A kernel releases the GIL, and a pool of up to `torch.get_num_threads()` plain Python threads runs
it on ranges of tiles. numba's own `prange` would not do: its default layer aborts the process if
two threads enter it at the same time, its OpenMP layer if a process that has used it forks. Calls
share nothing, so autograd's threads may call at the same time. A forked process (a DataLoader's
worker) makes a pool of its own.
"""

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
    """The pool of a process, which starts its threads as work comes."""
    return ThreadPoolExecutor(os.cpu_count(), thread_name_prefix=f"simulmt-ops-{process}")


def tiles_of(rows: Any) -> Any:
    """The number of tiles that hold all rows."""
    return -(-rows // LANES)


def run_tiles(kernel: Callable[..., None], rows: int, elements: int, *arguments: Any) -> None:
    """Run `kernel` over all tiles of `rows`, in as many threads as `elements` are worth."""
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
