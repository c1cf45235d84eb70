"""Dropout (Srivastava et al. 2014), alone and fused with a residual sum or a ReLU.

    dropout(x, p)_k = m_k x_k / (1 - p)        m_k = 1 with probability 1 - p, else 0
    dropout_added(x, y, p) = x + dropout(y, p)
    dropout_relu(x, p) = dropout(relu(x), p)

On the CPU, where torch's masks take a fifth of a small model's step, m_k is a hash of a seed and of
k: the gradient computes it again, and no mask is kept. The seed comes from torch's generator, one
draw a call, so `torch.manual_seed` fixes the masks, for any number of threads. Elsewhere, under
`torch.compile` and in half precision the masks are torch's.
"""

from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional

from simulmt.ops.cpu import arrays, run_tiles

STEPS = 2**32
"""Different values of a hash."""


def dropout(x: Float[Tensor, "*N"], p: float) -> Float[Tensor, "*N"]:
    """Each element of x set to 0 with probability `p` < 1, else divided by 1 - p."""
    if not _suits(x):
        return functional.dropout(x, p)
    return _Dropped.apply(x, p, new_seed())  # type: ignore[no-any-return, no-untyped-call]


def dropout_added(x: Float[Tensor, "*N"], y: Float[Tensor, "*N"], p: float) -> Float[Tensor, "*N"]:
    """`x + dropout(y, p)`."""
    if not (_suits(x) and _suits(y) and x.dtype == y.dtype and x.shape == y.shape):
        return x + functional.dropout(y, p)
    return _Added.apply(x, y, p, new_seed())  # type: ignore[no-any-return, no-untyped-call]


def dropout_relu(x: Float[Tensor, "*N"], p: float) -> Float[Tensor, "*N"]:
    """`dropout(relu(x), p)`."""
    if not _suits(x):
        return functional.dropout(functional.relu(x), p)
    return _Rectified.apply(x, p, new_seed())  # type: ignore[no-any-return, no-untyped-call]


def _suits(x: Tensor) -> bool:
    """True if the kernels take x: float32 or float64 on the CPU, not under `torch.compile`."""
    known = x.dtype in (torch.float32, torch.float64) and x.device.type == "cpu"
    return known and not torch.compiler.is_compiling()


def new_seed() -> int:
    """A seed of 63 bits."""
    return int(torch.empty((), dtype=torch.int64).random_().item())


def _run(name: str, p: float, seed: int, *inputs: Tensor) -> Tensor:
    """Fill a new tensor of the inputs' shape; probabilities are rounded to 1 / STEPS."""
    out = torch.empty_like(inputs[0], memory_format=torch.contiguous_format)
    threshold = np.uint32(min(round((1 - p) * STEPS), STEPS - 1))
    scale = (np.float64 if out.dtype == torch.float64 else np.float32)(1 / (1 - p))
    key = np.uint32(seed % STEPS), np.uint32(seed // STEPS), threshold, scale
    flat = arrays(x.contiguous().view(-1) for x in (*inputs, out))
    run_tiles(f"dropout_kernels.{name}", out.numel(), out.numel(), flat, key)
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
