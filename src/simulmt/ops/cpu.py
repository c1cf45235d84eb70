"""The compiled loops of `cpu_kernels` as PyTorch operators `simulmt::*`.

Registered through `torch.library`, so that autograd, autocast, `torch.compile` and DDP see ordinary
operators. numba and the kernels load when an operator first runs, not when this file is
imported.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any, TypeAlias

import torch
from jaxtyping import Float
from torch import Tensor

from simulmt.ops.tiles import run_tiles

Gradients: TypeAlias = tuple[Tensor | None, ...]


@functools.cache
def _kernels() -> ModuleType:
    from simulmt.ops import cpu_kernels  # noqa: PLC0415  # half a second, most of it numba

    return cpu_kernels


@functools.cache
def _chunk_kernels() -> ModuleType:
    from simulmt.ops import cpu_chunk_kernels  # noqa: PLC0415  # as above

    return cpu_chunk_kernels


def _run(
    kernel: Callable[..., None], tensors: Sequence[Tensor], shape: Sequence[int], *more: int
) -> None:
    """Run a kernel on the tensors, flat, and the sizes of (N, T, S) or (N, S).

    Kernels read memory element after element: a view of something expanded would be too short.
    """
    arrays = [x.detach().contiguous().view(-1).numpy() for x in tensors]
    run_tiles(kernel, shape[0], math.prod(shape), *arrays, *shape, *more)


# --- expected alignment ------------------------------------------------------------------------


@torch.library.custom_op("simulmt::alignment", mutates_args=(), device_types="cpu")
def _alignment(p: Tensor, initial: Tensor) -> Tensor:
    alpha = p.new_empty(p.shape)
    _run(_kernels().alignment, (p, initial, alpha), p.shape)
    return alpha


@_alignment.register_fake
def _(p: Tensor, initial: Tensor) -> Tensor:
    return p.new_empty(p.shape)


@torch.library.custom_op("simulmt::alignment_adjoint", mutates_args=(), device_types="cpu")
def _alignment_adjoint(
    grad: Tensor, p: Tensor, initial: Tensor, alpha: Tensor
) -> tuple[Tensor, Tensor]:
    into = p.new_empty(p.shape), p.new_empty(initial.shape)
    _run(_kernels().alignment_adjoint, (grad, p, initial, alpha, *into), p.shape)
    return into


@_alignment_adjoint.register_fake
def _(grad: Tensor, p: Tensor, initial: Tensor, alpha: Tensor) -> tuple[Tensor, Tensor]:
    return p.new_empty(p.shape), p.new_empty(initial.shape)


def _alignment_setup(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
    ctx.save_for_backward(*inputs, output)


def _alignment_backward(ctx: Any, grad: Tensor) -> Gradients:
    return tuple(_alignment_adjoint(grad, *ctx.saved_tensors))


_alignment.register_autograd(_alignment_backward, setup_context=_alignment_setup)


def alignment(p: Float[Tensor, "N T S"], initial: Float[Tensor, "N S"]) -> Float[Tensor, "N T S"]:
    """Expected alignment; see `reference.alignment`."""
    alpha: Tensor = _alignment(p, initial)
    return alpha


# --- expected attention, infinite lookback -----------------------------------------------------


@torch.library.custom_op("simulmt::lookback", mutates_args=(), device_types="cpu")
def _lookback(alpha: Tensor, energy: Tensor) -> Tensor:
    beta = alpha.new_empty(alpha.shape)
    _run(_kernels().lookback, (alpha, energy, beta), alpha.shape)
    return beta


@_lookback.register_fake
def _(alpha: Tensor, energy: Tensor) -> Tensor:
    return alpha.new_empty(alpha.shape)


@torch.library.custom_op("simulmt::lookback_adjoint", mutates_args=(), device_types="cpu")
def _lookback_adjoint(grad: Tensor, energy: Tensor, beta: Tensor) -> tuple[Tensor, Tensor]:
    into = beta.new_empty(beta.shape), beta.new_empty(beta.shape)
    _run(_kernels().lookback_adjoint, (grad, energy, beta, *into), beta.shape)
    return into


@_lookback_adjoint.register_fake
def _(grad: Tensor, energy: Tensor, beta: Tensor) -> tuple[Tensor, Tensor]:
    return beta.new_empty(beta.shape), beta.new_empty(beta.shape)


def _lookback_setup(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
    ctx.save_for_backward(inputs[1], output)


def _lookback_backward(ctx: Any, grad: Tensor) -> Gradients:
    return tuple(_lookback_adjoint(grad, *ctx.saved_tensors))


_lookback.register_autograd(_lookback_backward, setup_context=_lookback_setup)


def lookback(alpha: Float[Tensor, "N S"], energy: Float[Tensor, "N S"]) -> Float[Tensor, "N S"]:
    """Expected attention with infinite lookback; see `reference.lookback`."""
    beta: Tensor = _lookback(alpha, energy)
    return beta


# --- from logits to both, in one pass ----------------------------------------------------------


@torch.library.custom_op("simulmt::alignment_lookback", mutates_args=(), device_types="cpu")
def _alignment_lookback(logit: Tensor, energy: Tensor, initial: Tensor) -> tuple[Tensor, Tensor]:
    into = logit.new_empty(logit.shape), logit.new_empty(logit.shape)
    _run(_kernels().alignment_lookback, (logit, energy, initial, *into), logit.shape)
    return into


@_alignment_lookback.register_fake
def _(logit: Tensor, energy: Tensor, initial: Tensor) -> tuple[Tensor, Tensor]:
    return logit.new_empty(logit.shape), logit.new_empty(logit.shape)


@torch.library.custom_op("simulmt::alignment_lookback_adjoint", mutates_args=(), device_types="cpu")
def _alignment_lookback_adjoint(
    grad_alpha: Tensor | None,
    grad_beta: Tensor,
    logit: Tensor,
    energy: Tensor,
    initial: Tensor,
    alpha: Tensor,
) -> tuple[Tensor, Tensor, Tensor]:
    into = (
        logit.new_empty(logit.shape),
        logit.new_empty(logit.shape),
        logit.new_empty(initial.shape),
    )
    given = logit.new_empty(0) if grad_alpha is None else grad_alpha
    tensors = (given, grad_beta, logit, energy, initial, alpha, *into)
    _run(_kernels().alignment_lookback_adjoint, tensors, logit.shape)
    return into


@_alignment_lookback_adjoint.register_fake
def _(
    grad_alpha: Tensor | None,
    grad_beta: Tensor,
    logit: Tensor,
    energy: Tensor,
    initial: Tensor,
    alpha: Tensor,
) -> tuple[Tensor, Tensor, Tensor]:
    return (
        logit.new_empty(logit.shape),
        logit.new_empty(logit.shape),
        logit.new_empty(initial.shape),
    )


def _alignment_lookback_setup(ctx: Any, inputs: tuple[Any, ...], output: tuple[Any, ...]) -> None:
    ctx.save_for_backward(*inputs, output[0])
    ctx.set_materialize_grads(False)  # or zeros are made for what nobody used


def _alignment_lookback_backward(
    ctx: Any, grad_alpha: Tensor | None, grad_beta: Tensor | None
) -> Gradients:
    if grad_alpha is None and grad_beta is None:
        return None, None, None
    if grad_beta is None:
        grad_beta = torch.zeros_like(ctx.saved_tensors[0])
    return tuple(_alignment_lookback_adjoint(grad_alpha, grad_beta, *ctx.saved_tensors))


_alignment_lookback.register_autograd(
    _alignment_lookback_backward, setup_context=_alignment_lookback_setup
)


def alignment_lookback(
    logit: Float[Tensor, "N T S"], energy: Float[Tensor, "N T S"], initial: Float[Tensor, "N S"]
) -> tuple[Float[Tensor, "N T S"], Float[Tensor, "N T S"]]:
    """From logits to both, with infinite lookback; see `reference.alignment_lookback`."""
    alpha, beta = _alignment_lookback(logit, energy, initial)
    return alpha, beta


# --- expected attention, chunks ----------------------------------------------------------------


@torch.library.custom_op("simulmt::chunkwise", mutates_args=(), device_types="cpu")
def _chunkwise(alpha: Tensor, energy: Tensor, chunk: int) -> Tensor:
    beta = alpha.new_empty(alpha.shape)
    _run(_chunk_kernels().chunkwise, (alpha, energy, beta), alpha.shape, chunk)
    return beta


@_chunkwise.register_fake
def _(alpha: Tensor, energy: Tensor, chunk: int) -> Tensor:
    return alpha.new_empty(alpha.shape)


@torch.library.custom_op("simulmt::chunkwise_adjoint", mutates_args=(), device_types="cpu")
def _chunkwise_adjoint(
    grad: Tensor, alpha: Tensor, energy: Tensor, chunk: int
) -> tuple[Tensor, Tensor]:
    into = alpha.new_empty(alpha.shape), alpha.new_empty(alpha.shape)
    _run(_chunk_kernels().chunkwise_adjoint, (grad, alpha, energy, *into), alpha.shape, chunk)
    return into


@_chunkwise_adjoint.register_fake
def _(grad: Tensor, alpha: Tensor, energy: Tensor, chunk: int) -> tuple[Tensor, Tensor]:
    return alpha.new_empty(alpha.shape), alpha.new_empty(alpha.shape)


def _chunkwise_setup(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
    ctx.save_for_backward(*inputs[:2])
    ctx.chunk = inputs[2]


def _chunkwise_backward(ctx: Any, grad: Tensor) -> Gradients:
    return *_chunkwise_adjoint(grad, *ctx.saved_tensors, ctx.chunk), None


_chunkwise.register_autograd(_chunkwise_backward, setup_context=_chunkwise_setup)


def chunkwise(
    alpha: Float[Tensor, "N S"], energy: Float[Tensor, "N S"], chunk: int
) -> Float[Tensor, "N S"]:
    """Expected attention over chunks; see `reference.chunkwise`."""
    beta: Tensor = _chunkwise(alpha, energy, chunk)
    return beta
