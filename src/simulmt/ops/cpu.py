"""The backend for the CPU: kernels in numba, 16 rows at a time, shared out among threads.

numba and the kernels load when an operator first runs: that takes half a second.
"""

from __future__ import annotations

import importlib
import math
from collections.abc import Sequence
from typing import Any

from torch import Tensor

from simulmt.ops.operators import (
    ALIGNMENT,
    ALIGNMENT_LOOKBACK,
    CHUNKWISE,
    LOOKBACK,
    Kernel,
    Operation,
    operator,
)
from simulmt.ops.tiles import run_tiles


def _kernel(file: str, name: str) -> Kernel:
    def run(inputs: Sequence[Tensor | None], outputs: Sequence[Tensor], *integers: int) -> None:
        kernel = getattr(importlib.import_module(f"simulmt.ops.{file}"), name)
        shape = tuple(outputs[0].shape)
        absent = outputs[0].new_empty(0)  # a kernel reads it as zeros
        tensors = [absent if x is None else x for x in (*inputs, *outputs)]
        arrays = [x.view(-1).numpy() for x in tensors]
        run_tiles(kernel, shape[0], math.prod(shape), *arrays, shape, *integers)

    return run


def _operator(operation: Operation, file: str) -> Any:
    adjoint = f"{operation.name}_adjoint"
    return operator("", operation, _kernel(file, operation.name), _kernel(file, adjoint))


alignment = _operator(ALIGNMENT, "cpu_kernels")
lookback = _operator(LOOKBACK, "cpu_kernels")
chunkwise = _operator(CHUNKWISE, "cpu_chunks")
alignment_lookback = _operator(ALIGNMENT_LOOKBACK, "cpu_kernels")
