"""Dropout (Srivastava et al. 2014), alone and fused with a residual sum or a ReLU.

    dropout(x, p)_k = m_k x_k / (1 - p)        m_k = 1 with probability 1 - p, else 0
    dropout_added(x, y, p) = x + dropout(y, p)
    dropout_relu(x, p) = dropout(relu(x), p)

On the CPU, where torch's masks take a fifth of a small model's step, m_k is a hash of a seed and of
k: the gradient computes it again, and no mask is kept. The seed comes from torch's generator, one
draw a call, so `torch.manual_seed` fixes the masks, for any number of threads. Elsewhere, under
`torch.compile` and in half precision the masks are torch's.
"""

import importlib
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional

from simulmt.ops.tiles import run_tiles

STEPS = 2**32
"""Probabilities are rounded to multiples of 1 / STEPS."""


def dropout(x: Float[Tensor, "*N"], p: float) -> Float[Tensor, "*N"]:
    """Each element of x set to 0 with probability `p` < 1, else divided by 1 - p."""
    if not _own(x):
        return functional.dropout(x, p)
    return _Dropped.apply(x, p, _seed())  # type: ignore[no-any-return, no-untyped-call]


def dropout_added(x: Float[Tensor, "*N"], y: Float[Tensor, "*N"], p: float) -> Float[Tensor, "*N"]:
    """`x + dropout(y, p)`."""
    if not (_own(x) and _own(y) and x.dtype == y.dtype and x.shape == y.shape):
        return x + functional.dropout(y, p)
    return _Added.apply(x, y, p, _seed())  # type: ignore[no-any-return, no-untyped-call]


def dropout_relu(x: Float[Tensor, "*N"], p: float) -> Float[Tensor, "*N"]:
    """`dropout(relu(x), p)`."""
    if not _own(x):
        return functional.dropout(functional.relu(x), p)
    return _Rectified.apply(x, p, _seed())  # type: ignore[no-any-return, no-untyped-call]


def _own(x: Tensor) -> bool:
    """Whether the kernels take x."""
    known = x.dtype in (torch.float32, torch.float64) and x.device.type == "cpu"
    return known and not torch.compiler.is_compiling()


def _seed() -> int:
    return int(torch.empty((), dtype=torch.int64).random_().item())  # 63 bits


def _run(name: str, p: float, seed: int, *inputs: Tensor) -> Tensor:
    """Fill a new tensor of the inputs' shape by a kernel."""
    kernels = importlib.import_module("simulmt.ops.dropout_kernels")  # half a second, most of numba
    inputs = tuple(x.detach().contiguous() for x in inputs)
    out = torch.empty_like(inputs[0])
    arrays = tuple(x.view(-1).numpy() for x in (*inputs, out))
    threshold = min(round((1 - p) * STEPS), STEPS - 1)
    words = (np.uint32(word) for word in (seed % STEPS, seed // STEPS, threshold))
    key = *words, arrays[0].dtype.type(1 / (1 - p))
    run_tiles(getattr(kernels, name), arrays[0].size, arrays[0].size, arrays, key)
    return out


class _Dropped(torch.autograd.Function):
    """The gradient is the same function of the output's gradient."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, p: float, seed: int) -> Tensor:
        ctx.key = p, seed
        return _run("dropped", p, seed, x)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:
        return _Dropped.apply(grad, *ctx.key), None, None  # type: ignore[no-untyped-call]


class _Added(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, y: Tensor, p: float, seed: int) -> Tensor:
        ctx.key = p, seed
        return _run("added", p, seed, x, y)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor, None, None]:
        return grad, _Dropped.apply(grad, *ctx.key), None, None  # type: ignore[no-untyped-call]


class _Rectified(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, p: float, seed: int) -> Tensor:
        out = _run("rectified", p, seed, x)
        ctx.key = p, seed
        ctx.save_for_backward(out)
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:
        (out,) = ctx.saved_tensors
        return _run("rectified_adjoint", *ctx.key, grad, out), None, None
