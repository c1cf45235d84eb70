"""Gaussian noise of monotonic attention (Raffel et al. 2017).

    noisy(x, std)_k = x_k + std * z_k        z_k drawn from N(0, 1)

On the CPU, where torch's draws take a tenth of a step with long sentences, z_k is computed from a
hash (`simulmt.ops.dropout_kernels`). Elsewhere the draws are torch's.
"""

from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from simulmt.ops.dropout import new_seed, run, suits


def noisy_(x: Float[Tensor, "*N"], std: float) -> Float[Tensor, "*N"]:
    """Add noise with standard deviation `std` to x, in place; the gradient passes unchanged."""
    if not suits(x) or not x.is_contiguous():
        return x.add_(torch.randn_like(x), alpha=std)
    return _Noisy.apply(x, std, new_seed())  # type: ignore[no-any-return, no-untyped-call]


class _Noisy(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, std: float, seed: int) -> Tensor:
        ctx.mark_dirty(x)
        run("noise_kernels.add_noise", seed, [x], np.float32(std))
        return x

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:
        return grad, None, None
