"""The backend for the CPU: kernels in numba, 16 rows at a time, shared out among threads.

numba and the kernels load when an operator first runs: that takes half a second.
"""

import importlib
from collections.abc import Sequence

from torch import Tensor

from simulmt.ops.operators import ALIGNMENT, ALIGNMENT_LOOKBACK, CHUNKWISE, LOOKBACK, operator
from simulmt.ops.tiles import run_tiles


def _run(
    name: str, inputs: Sequence[Tensor | None], outputs: Sequence[Tensor], *integers: int
) -> None:
    kernel = getattr(importlib.import_module("simulmt.ops.cpu_kernels"), name)
    absent = outputs[0].new_empty(0, 0)  # a kernel reads it as zeros
    given = tuple((absent if x is None else x).flatten(1).numpy() for x in inputs)
    filled = tuple(x.flatten(1).numpy() for x in outputs)
    run_tiles(kernel, len(outputs[0]), outputs[0].numel(), given, filled, *integers)


alignment = operator("", ALIGNMENT, _run)
lookback = operator("", LOOKBACK, _run)
chunkwise = operator("", CHUNKWISE, _run)
alignment_lookback = operator("", ALIGNMENT_LOOKBACK, _run)
