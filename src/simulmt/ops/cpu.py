"""The backend for the CPU: kernels in numba, which share tiles of 16 rows out among threads.

numba and the kernels load when an operator first runs: that takes half a second. A kernel releases
the GIL, and a pool of up to `torch.get_num_threads()` plain Python threads runs it on ranges of
tiles. numba's own `prange` would not do: its default layer aborts the process if two threads enter
it at the same time, its OpenMP layer if a process that has used it forks. Calls share nothing, so
autograd's threads may call at the same time. A forked process (a DataLoader's worker) makes its own
pool.
"""

import functools
import itertools
import os
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from typing import Any

import torch
from torch import Tensor

from simulmt.ops.operators import ALIGNMENT, ALIGNMENT_LOOKBACK, CHUNKWISE, LOOKBACK, operator

LANES = 16  # rows in a tile
GRAIN = 2**15  # elements below which a second thread costs more than it gives


@functools.cache
def _pool(process: int) -> ThreadPoolExecutor:
    """The pool of a process, which starts its threads as work comes."""
    return ThreadPoolExecutor(os.cpu_count(), thread_name_prefix=f"simulmt-ops-{process}")


def tiles_of(rows: int) -> int:
    """The number of tiles that hold all rows."""
    return -(-rows // LANES)


def arrays(tensors: Iterable[Tensor]) -> tuple[Any, ...]:
    """NumPy arrays with the memory of some tensors."""
    return tuple(tensor.detach().numpy() for tensor in tensors)


def run_tiles(kernel: str, rows: int, elements: int, *arguments: Any) -> None:
    """Run a kernel over all tiles of some rows.

    Args:
        kernel: its name, such as `lstm_kernels.forward`.
        rows: the number of rows.
        elements: the size of the work, which decides the number of threads.
        arguments: what the kernel takes before the first and the last tile.
    """
    module, name = kernel.split(".")
    run: Callable[..., None] = getattr(import_module(f"simulmt.ops.{module}"), name)
    tiles = tiles_of(rows)
    threads = min(torch.get_num_threads(), tiles, 1 + elements // GRAIN)
    if threads <= 1:
        run(*arguments, 0, tiles)
        return
    cuts = [tiles * part // threads for part in range(threads + 1)]
    pool = _pool(os.getpid())
    parts = [pool.submit(run, *arguments, a, b) for a, b in itertools.pairwise(cuts)]
    for part in parts:
        part.result()


def _run(
    name: str, inputs: Sequence[Tensor | None], outputs: Sequence[Tensor], *integers: int
) -> None:
    absent = outputs[0].new_empty(0, 0)  # a kernel reads it as zeros
    given = arrays((absent if x is None else x).flatten(1) for x in inputs)
    filled = arrays(x.flatten(1) for x in outputs)
    size = outputs[0].numel()
    run_tiles(f"cpu_kernels.{name}", len(outputs[0]), size, given, filled, *integers)


alignment = operator("", ALIGNMENT, _run)
lookback = operator("", LOOKBACK, _run)
chunkwise = operator("", CHUNKWISE, _run)
alignment_lookback = operator("", ALIGNMENT_LOOKBACK, _run)
