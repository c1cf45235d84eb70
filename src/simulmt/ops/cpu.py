"""The compiled loops of `cpu_kernels` as PyTorch operators `simulmt::*`.

Registered through `torch.library`, so that autograd, autocast, `torch.compile` and DDP see ordinary
operators. numba and the kernels load when an operator first runs, not when this file is
imported.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from types import ModuleType
from typing import Any, TypeAlias

import torch
from jaxtyping import Float
from torch import Tensor

from simulmt.ops.tiles import LANES, run_tiles, tiles_of

Gradients: TypeAlias = tuple[Tensor | None, Tensor | None]


@functools.cache
def _kernels() -> ModuleType:
    from simulmt.ops import cpu_kernels  # noqa: PLC0415  # half a second, most of it numba

    return cpu_kernels


def _run(kernel: Callable[..., None], *arguments: Tensor | int) -> None:
    first = arguments[0]
    assert isinstance(first, Tensor)
    arrays = [a.detach().numpy() if isinstance(a, Tensor) else a for a in arguments]
    run_tiles(kernel, first.shape[0], first.numel(), *arrays)


# --- expected alignment ------------------------------------------------------------------------


@torch.library.custom_op("simulmt::alignment", mutates_args=(), device_types="cpu")
def _alignment(p: Tensor, initial: Tensor) -> Tensor:
    p = p.contiguous()
    alpha = torch.empty_like(p)
    _run(_kernels().alignment, p, initial.contiguous(), alpha)
    return alpha


@_alignment.register_fake
def _(p: Tensor, initial: Tensor) -> Tensor:
    return p.new_empty(p.shape)


@torch.library.custom_op("simulmt::alignment_adjoint", mutates_args=(), device_types="cpu")
def _alignment_adjoint(
    grad: Tensor, p: Tensor, initial: Tensor, alpha: Tensor
) -> tuple[Tensor, Tensor]:
    grad, p, initial = grad.contiguous(), p.contiguous(), initial.contiguous()
    grad_p, grad_initial = torch.empty_like(p), torch.empty_like(initial)
    _run(_kernels().alignment_adjoint, grad, p, initial, alpha, grad_p, grad_initial)
    return grad_p, grad_initial


@_alignment_adjoint.register_fake
def _(grad: Tensor, p: Tensor, initial: Tensor, alpha: Tensor) -> tuple[Tensor, Tensor]:
    return p.new_empty(p.shape), initial.new_empty(initial.shape)


def _alignment_setup(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
    ctx.save_for_backward(*inputs, output)


def _alignment_backward(ctx: Any, grad: Tensor) -> Gradients:
    grad_p, grad_initial = _alignment_adjoint(grad, *ctx.saved_tensors)
    return grad_p, grad_initial


_alignment.register_autograd(_alignment_backward, setup_context=_alignment_setup)


def alignment(p: Float[Tensor, "N T S"], initial: Float[Tensor, "N S"]) -> Float[Tensor, "N T S"]:
    """Expected alignment; see `reference.alignment`."""
    alpha: Tensor = _alignment(p, initial)
    return alpha


# --- expected attention, infinite lookback -----------------------------------------------------


@torch.library.custom_op("simulmt::lookback", mutates_args=(), device_types="cpu")
def _lookback(alpha: Tensor, energy: Tensor) -> tuple[Tensor, Tensor]:
    alpha = alpha.contiguous()
    beta = torch.empty_like(alpha)
    fraction = alpha.new_empty(tiles_of(alpha.shape[0]), LANES * alpha.shape[1])
    _run(_kernels().lookback, alpha, energy.contiguous(), beta, fraction)
    return beta, fraction


@_lookback.register_fake
def _(alpha: Tensor, energy: Tensor) -> tuple[Tensor, Tensor]:
    N, S = alpha.shape
    return alpha.new_empty(N, S), alpha.new_empty(tiles_of(N), LANES * S)


@torch.library.custom_op("simulmt::lookback_adjoint", mutates_args=(), device_types="cpu")
def _lookback_adjoint(grad: Tensor, beta: Tensor, fraction: Tensor) -> tuple[Tensor, Tensor]:
    grad, beta = grad.contiguous(), beta.contiguous()
    grad_alpha, grad_energy = torch.empty_like(beta), torch.empty_like(beta)
    _run(_kernels().lookback_adjoint, grad, beta, fraction, grad_alpha, grad_energy)
    return grad_alpha, grad_energy


@_lookback_adjoint.register_fake
def _(grad: Tensor, beta: Tensor, fraction: Tensor) -> tuple[Tensor, Tensor]:
    N, S = beta.shape
    return beta.new_empty(N, S), beta.new_empty(N, S)


def _lookback_setup(ctx: Any, inputs: tuple[Any, ...], output: tuple[Any, ...]) -> None:
    ctx.save_for_backward(*output)
    ctx.mark_non_differentiable(output[1])
    ctx.set_materialize_grads(False)  # or a gradient of zeros is made for it every time


def _lookback_backward(ctx: Any, grad: Tensor | None, _: Any) -> Gradients:
    if grad is None:
        return None, None
    grad_alpha, grad_energy = _lookback_adjoint(grad, *ctx.saved_tensors)
    return grad_alpha, grad_energy


_lookback.register_autograd(_lookback_backward, setup_context=_lookback_setup)


def lookback(alpha: Float[Tensor, "N S"], energy: Float[Tensor, "N S"]) -> Float[Tensor, "N S"]:
    """Expected attention with infinite lookback; see `reference.lookback`."""
    beta: Tensor = _lookback(alpha, energy)[0]
    return beta


# --- expected attention, chunks ----------------------------------------------------------------


@torch.library.custom_op("simulmt::chunkwise", mutates_args=(), device_types="cpu")
def _chunkwise(alpha: Tensor, energy: Tensor, chunk: int) -> Tensor:
    alpha = alpha.contiguous()
    beta = torch.empty_like(alpha)
    _run(_kernels().chunkwise, alpha, energy.contiguous(), beta, chunk)
    return beta


@_chunkwise.register_fake
def _(alpha: Tensor, energy: Tensor, chunk: int) -> Tensor:
    N, S = alpha.shape
    return alpha.new_empty(N, S)


@torch.library.custom_op("simulmt::chunkwise_adjoint", mutates_args=(), device_types="cpu")
def _chunkwise_adjoint(
    grad: Tensor, alpha: Tensor, energy: Tensor, chunk: int
) -> tuple[Tensor, Tensor]:
    grad, alpha, energy = grad.contiguous(), alpha.contiguous(), energy.contiguous()
    grad_alpha, grad_energy = torch.empty_like(alpha), torch.empty_like(alpha)
    _run(_kernels().chunkwise_adjoint, grad, alpha, energy, grad_alpha, grad_energy, chunk)
    return grad_alpha, grad_energy


@_chunkwise_adjoint.register_fake
def _(grad: Tensor, alpha: Tensor, energy: Tensor, chunk: int) -> tuple[Tensor, Tensor]:
    N, S = alpha.shape
    return alpha.new_empty(N, S), alpha.new_empty(N, S)


def _chunkwise_setup(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
    ctx.save_for_backward(*inputs[:2])
    ctx.chunk = inputs[2]


def _chunkwise_backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor, None]:
    grad_alpha, grad_energy = _chunkwise_adjoint(grad, *ctx.saved_tensors, ctx.chunk)
    return grad_alpha, grad_energy, None


_chunkwise.register_autograd(_chunkwise_backward, setup_context=_chunkwise_setup)


def chunkwise(
    alpha: Float[Tensor, "N S"], energy: Float[Tensor, "N S"], chunk: int
) -> Float[Tensor, "N S"]:
    """Expected attention over chunks; see `reference.chunkwise`."""
    beta: Tensor = _chunkwise(alpha, energy, chunk)
    return beta
