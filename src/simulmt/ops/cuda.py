"""The backend for GPUs: kernels in Triton.

Triton and the kernels load when an operator first runs. With TRITON_INTERPRET=1 in the environment
from the start, Triton's interpreter runs the kernels, slowly, on tensors in the CPU's memory: for
tests.

These kernels wait for memory, not for arithmetic, so bytes count. Per element in float32,
neighbours that a cache holds not counted again:

    alignment   forward   read p, write alpha                                  8
                adjoint   read grad, p, alpha, write grad_p                   16
    lookback    forward   read alpha, energy, write beta                      12
                adjoint   read grad, energy, beta, write two gradients        20
    chunkwise   forward   in two steps, with top and spent between them       32
                adjoint   in three steps, with top, spent and the mean        52

To keep q, or f, for the adjoint would cost one more write and save no read; the adjoint computes
both again, from alpha and from the energy. A softmax, forward and backward, moves 20.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor

from simulmt.ops.operators import ALIGNMENT, CHUNKWISE, LOOKBACK, Kernel, operator

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


def _launch(name: str, tensors: Sequence[Tensor], *integers: int, **options: int) -> None:
    """Run a kernel over all rows of the tensors, the last of which has S positions a row."""
    *_, S = tensors[-1].shape
    rows = tensors[-1].shape[0]
    if rows == 0 or S == 0:
        return
    block = 1 << (S - 1).bit_length()
    in_program = max(1, PER_WARP // block)
    device = tensors[0].get_device() if tensors[0].is_cuda else -1
    kernels = importlib.import_module("simulmt.ops.cuda_kernels")
    with torch.cuda.device(device):  # else the launch goes to the current GPU
        getattr(kernels, name)[(-(-rows // in_program),)](
            *tensors,
            *integers,
            ROWS=in_program,
            BLOCK=block,
            num_warps=max(1, block // PER_WARP),
            enable_fp_fusion=True,  # a * b + c rounds once, as in the CPU's kernels
            **options,
        )


def _align(name: str) -> Kernel:
    def run(inputs: Sequence[Tensor], outputs: Sequence[Tensor]) -> None:
        shape = outputs[0].shape
        stages = STAGES if shape[-1] <= PIPELINED else 1
        _launch(name, (*inputs, *outputs), *shape, STAGES=stages)

    return run


def _look_back(name: str) -> Kernel:
    def run(inputs: Sequence[Tensor], outputs: Sequence[Tensor]) -> None:
        _launch(name, (*inputs, *outputs), *outputs[0].shape)

    return run


def _chunk_tops(alpha: Tensor, energy: Tensor, chunk: int) -> tuple[Tensor, Tensor]:
    top, spent = torch.empty_like(alpha), torch.empty_like(alpha)
    _launch("chunk_tops", (alpha, energy, top, spent), *alpha.shape, chunk)
    return top, spent


def _chunkwise(inputs: Sequence[Tensor], outputs: Sequence[Tensor], chunk: int) -> None:
    alpha, energy = inputs
    kept = _chunk_tops(alpha, energy, chunk)
    _launch("chunkwise", (energy, *kept, *outputs), *alpha.shape, chunk)


def _chunkwise_adjoint(inputs: Sequence[Tensor], outputs: Sequence[Tensor], chunk: int) -> None:
    grad, alpha, energy = inputs
    kept, shape = _chunk_tops(alpha, energy, chunk), alpha.shape
    _launch("chunk_means", (grad, energy, outputs[0]), *shape, chunk)
    _launch("chunkwise_adjoint", (grad, energy, *kept, *outputs), *shape, chunk)


alignment = operator("cuda_", ALIGNMENT, _align("alignment"), _align("alignment_adjoint"))
lookback = operator("cuda_", LOOKBACK, _look_back("lookback"), _look_back("lookback_adjoint"))
chunkwise = operator("cuda_", CHUNKWISE, _chunkwise, _chunkwise_adjoint)


def alignment_lookback(
    logit: Float[Tensor, "N T S"], energy: Float[Tensor, "N T S"], initial: Float[Tensor, "N S"]
) -> tuple[Float[Tensor, "N T S"], Float[Tensor, "N T S"]]:
    """From logits to alpha and beta, in three passes; see `reference.alignment_lookback`."""
    alpha = alignment(logit.sigmoid(), initial)
    beta = lookback(alpha.flatten(0, 1), energy.flatten(0, 1))  # (N, T, S) -> (N T, S)
    return alpha, beta.reshape(alpha.shape)
