"""The backend for GPUs: kernels in Triton.

Triton and the kernels load when an operator first runs. With TRITON_INTERPRET=1 in the environment
from the start, Triton's interpreter runs the kernels, slowly, on tensors in the CPU's memory: for
tests.

These kernels are limited by memory, not by arithmetic, so bytes count. Bytes per element in
float32, without the neighbours that are loaded again from a cache:

    alignment   forward   read p, write alpha                                  8
                adjoint   read grad, p, alpha, write grad_p                   16
    lookback    forward   read alpha, energy, write beta                      12
                adjoint   read grad, energy, beta, write two gradients        20
    chunkwise   forward   in two steps, with top and spent between them       32
                adjoint   in three steps, with top, spent and the mean        52

To keep q, or f, for the adjoint would cost one more write and save no read; the adjoint computes
both again, from alpha and from the energy. A softmax, forward and backward, moves 20.
"""

import importlib
import importlib.util
import os
from collections.abc import Sequence

import torch
from torch import Tensor

from simulmt.ops.operators import ALIGNMENT, CHUNKWISE, LOOKBACK, operator

INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"
INSTALLED = importlib.util.find_spec("triton") is not None

LONGEST = 4096  # positions that a block holds in registers
PER_WARP = 256  # elements of a block for each warp: 8 in every thread
STAGES = 3  # how deep the loads of the loop over T are pipelined, in shared memory
PIPELINED = 1024  # positions above which loads are not pipelined: shared memory is short


def obstacle(device: str, S: int) -> str | None:
    """Why these kernels cannot run on rows of S positions on this device; None if they can."""
    if not INSTALLED:
        return "needs Triton, which is not installed (pip install 'simulmt[gpu]')"
    if device != "cuda" and not (INTERPRETED and device == "cpu"):
        return f"runs on tensors in a GPU's memory, this one is on {device!r}"
    if S > LONGEST:
        return f"holds a row in registers, at most {LONGEST} positions; this one has {S}"
    return None


def _launch(name: str, tensors: Sequence[Tensor], *sizes: int, **options: int) -> None:
    """Run a kernel, whose integers begin with the number of rows, over rows of S positions."""
    rows, S = sizes[0], tensors[-1].shape[-1]
    if rows == 0 or S == 0:
        return
    block = 1 << (S - 1).bit_length()
    in_program = max(1, PER_WARP // block)
    device = tensors[0].get_device() if tensors[0].is_cuda else -1
    kernels = importlib.import_module("simulmt.ops.cuda_kernels")
    with torch.cuda.device(device):  # else the launch goes to the current GPU
        getattr(kernels, name)[(-(-rows // in_program),)](
            *tensors,
            *sizes,
            ROWS=in_program,
            BLOCK=block,
            num_warps=max(1, block // PER_WARP),
            enable_fp_fusion=True,  # a * b + c rounds once, unlike in the CPU's kernels
            **options,
        )


def _run(name: str, inputs: Sequence[Tensor], outputs: Sequence[Tensor]) -> None:
    shape = outputs[0].shape  # (N, T, S) or (N, S)
    stages = {"STAGES": STAGES if shape[-1] <= PIPELINED else 1} if len(shape) == 3 else {}
    _launch(name, (*inputs, *outputs), *shape, **stages)


def _chunkwise(name: str, inputs: Sequence[Tensor], outputs: Sequence[Tensor], chunk: int) -> None:
    *grad, alpha, energy = inputs
    sizes = *alpha.shape, chunk
    top, spent = torch.empty_like(alpha), torch.empty_like(alpha)
    _launch("chunk_tops", (alpha, energy, top, spent), *sizes)
    if grad:
        _launch("chunk_means", (*grad, energy, outputs[0]), *sizes)
    _launch(name, (*grad, energy, top, spent, *outputs), *sizes)


alignment = operator("cuda_", ALIGNMENT, _run)
lookback = operator("cuda_", LOOKBACK, _run)
chunkwise = operator("cuda_", CHUNKWISE, _chunkwise)
