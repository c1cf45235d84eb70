"""Random numbers by a hash: number k of a draw depends on the draw's seed and on k alone.

The seed comes from torch's generator, one draw a call, so `torch.manual_seed` fixes all numbers,
for any number of threads. A gradient computes them again instead of keeping them.
"""

import importlib
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from simulmt.ops.tiles import run_tiles

STEPS = 2**32
"""Different values of a hash."""


def suits(x: Tensor) -> bool:
    """Whether the kernels take x: float32 or float64 on the CPU, not under `torch.compile`."""
    known = x.dtype in (torch.float32, torch.float64) and x.device.type == "cpu"
    return known and not torch.compiler.is_compiling()


def new_seed() -> int:
    """Return a seed of 63 bits."""
    return int(torch.empty((), dtype=torch.int64).random_().item())


def run(module: str, name: str, seed: int, tensors: Sequence[Tensor], *options: Any) -> None:
    """Run a kernel over contiguous tensors of one shape.

    Args:
        module: the kernel's module, which is imported at the first call: numba takes half a second.
        name: the kernel.
        seed: what the random numbers depend on.
        tensors: what the kernel reads and writes.
        options: what else the kernel takes.
    """
    kernel = getattr(importlib.import_module(f"simulmt.ops.{module}"), name)
    arrays = tuple(x.detach().view(-1).numpy() for x in tensors)
    key = np.uint32(seed % STEPS), np.uint32(seed // STEPS), *options
    run_tiles(kernel, arrays[0].size, arrays[0].size, arrays, key)
