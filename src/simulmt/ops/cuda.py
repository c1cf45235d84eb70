"""The kernels of `cuda_kernels` as PyTorch operators `simulmt::cuda_*`.

Registered through `torch.library`, so that autograd, autocast, `torch.compile` and DDP see ordinary
operators. Triton and the kernels load when an operator first runs, not when this file is
imported. With TRITON_INTERPRET=1 in the environment from the start Triton's interpreter runs them,
slowly, on tensors in the CPU's memory: for tests.

These kernels wait for memory, not for arithmetic, so what is counted is bytes. Per element in
float32, neighbours that a cache holds not counted again:

    alignment   forward   read p, write alpha                                  8
                adjoint   read grad, p, alpha, write grad_p                   16
    lookback    forward   read alpha, energy, write beta                      12
                adjoint   read grad, energy, beta, write two gradients        20
    chunkwise   forward   in two steps, with top and spent between them       32
                adjoint   in two steps, with top, spent and the mean          36

To keep q, or f, for the adjoint would cost one more write and save no read: they are computed
again, from alpha and from the energy. A softmax, forward and backward, moves 20.
"""

from __future__ import annotations

import functools
import importlib.util
import os
from types import ModuleType
from typing import Any, TypeAlias

import torch
from jaxtyping import Float
from torch import Tensor

INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"
INSTALLED = importlib.util.find_spec("triton") is not None

LONGEST = 4096  # positions that a block holds in registers
PER_WARP = 256  # elements of a block for each warp: 8 in every thread
STAGES = 3  # how deep the loads of the loop over T are pipelined, in shared memory
PIPELINED = 1024  # positions above which they are not: enough is under way, and space is short

Gradients: TypeAlias = tuple[Tensor | None, Tensor | None]


def obstacle(device: str, S: int) -> str | None:
    """Why these kernels cannot run on rows of S on this device; None if they can."""
    if not INSTALLED:
        return "needs Triton, which is not installed (pip install 'simulmt[gpu]')"
    if device != "cuda" and not (INTERPRETED and device == "cpu"):
        return f"runs on tensors in a GPU's memory, this one is on {device!r}"
    if S > LONGEST:
        return f"holds a row in registers, at most {LONGEST} positions; this one has {S}"
    return None


@functools.cache
def _kernels() -> ModuleType:
    from simulmt.ops import cuda_kernels  # noqa: PLC0415  # imports Triton

    return cuda_kernels


def _launch(name: str, *arguments: Tensor | int, rows: int, S: int, **options: int) -> None:
    """Run a kernel over `rows` rows of S positions, on the device of its first argument."""
    if rows == 0 or S == 0:
        return
    first = arguments[0]
    assert isinstance(first, Tensor)
    block = 1 << (S - 1).bit_length()
    in_program = max(1, PER_WARP // block)
    here = first.get_device() if first.is_cuda else -1
    with torch.cuda.device(here):  # a launch goes to the current GPU, wherever its tensors are
        getattr(_kernels(), name)[(-(-rows // in_program),)](
            *(a.detach() if isinstance(a, Tensor) else a for a in arguments),
            ROWS=in_program,
            BLOCK=block,
            num_warps=max(1, block // PER_WARP),
            enable_fp_fusion=True,  # a * b + c rounds once, as in the CPU's kernels
            **options,
        )


def _stages(S: int) -> int:
    return STAGES if S <= PIPELINED else 1


# --- expected alignment ------------------------------------------------------------------------


@torch.library.custom_op("simulmt::cuda_alignment", mutates_args=())
def _alignment(p: Tensor, initial: Tensor) -> Tensor:
    N, T, S = p.shape
    p, initial = p.contiguous(), initial.contiguous()
    alpha = torch.empty_like(p)
    _launch("alignment", p, initial, alpha, N, T, S, rows=N, S=S, STAGES=_stages(S))
    return alpha


@_alignment.register_fake
def _(p: Tensor, initial: Tensor) -> Tensor:
    return p.new_empty(p.shape)


@torch.library.custom_op("simulmt::cuda_alignment_adjoint", mutates_args=())
def _alignment_adjoint(
    grad: Tensor, p: Tensor, initial: Tensor, alpha: Tensor
) -> tuple[Tensor, Tensor]:
    N, T, S = p.shape
    given = [x.contiguous() for x in (grad, p, initial, alpha)]
    grad_p, grad_initial = torch.empty_like(given[1]), torch.empty_like(given[2])
    into = grad_p, grad_initial
    _launch("alignment_adjoint", *given, *into, N, T, S, rows=N, S=S, STAGES=_stages(S))
    return grad_p, grad_initial


@_alignment_adjoint.register_fake
def _(grad: Tensor, p: Tensor, initial: Tensor, alpha: Tensor) -> tuple[Tensor, Tensor]:
    return p.new_empty(p.shape), p.new_empty(initial.shape)


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


@torch.library.custom_op("simulmt::cuda_lookback", mutates_args=())
def _lookback(alpha: Tensor, energy: Tensor) -> Tensor:
    N, S = alpha.shape
    alpha, energy = alpha.contiguous(), energy.contiguous()
    beta = torch.empty_like(alpha)
    _launch("lookback", alpha, energy, beta, N, S, rows=N, S=S)
    return beta


@_lookback.register_fake
def _(alpha: Tensor, energy: Tensor) -> Tensor:
    return alpha.new_empty(alpha.shape)


@torch.library.custom_op("simulmt::cuda_lookback_adjoint", mutates_args=())
def _lookback_adjoint(grad: Tensor, energy: Tensor, beta: Tensor) -> tuple[Tensor, Tensor]:
    N, S = beta.shape
    given = [x.contiguous() for x in (grad, energy, beta)]
    grad_alpha, grad_energy = torch.empty_like(given[2]), torch.empty_like(given[2])
    _launch("lookback_adjoint", *given, grad_alpha, grad_energy, N, S, rows=N, S=S)
    return grad_alpha, grad_energy


@_lookback_adjoint.register_fake
def _(grad: Tensor, energy: Tensor, beta: Tensor) -> tuple[Tensor, Tensor]:
    return beta.new_empty(beta.shape), beta.new_empty(beta.shape)


def _lookback_setup(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
    ctx.save_for_backward(inputs[1], output)


def _lookback_backward(ctx: Any, grad: Tensor) -> Gradients:
    grad_alpha, grad_energy = _lookback_adjoint(grad, *ctx.saved_tensors)
    return grad_alpha, grad_energy


_lookback.register_autograd(_lookback_backward, setup_context=_lookback_setup)


def lookback(alpha: Float[Tensor, "N S"], energy: Float[Tensor, "N S"]) -> Float[Tensor, "N S"]:
    """Expected attention with infinite lookback; see `reference.lookback`."""
    beta: Tensor = _lookback(alpha, energy)
    return beta


def alignment_lookback(
    logit: Float[Tensor, "N T S"], energy: Float[Tensor, "N T S"], initial: Float[Tensor, "N S"]
) -> tuple[Float[Tensor, "N T S"], Float[Tensor, "N T S"]]:
    """From logits to both, in three passes; see `reference.alignment_lookback`."""
    alpha = alignment(logit.sigmoid(), initial)
    beta = lookback(alpha.flatten(0, 1), energy.flatten(0, 1))  # (N, T, S) -> (N T, S)
    return alpha, beta.reshape(alpha.shape)


# --- expected attention, chunks ----------------------------------------------------------------


@torch.library.custom_op("simulmt::cuda_chunkwise", mutates_args=())
def _chunkwise(alpha: Tensor, energy: Tensor, chunk: int) -> tuple[Tensor, Tensor, Tensor]:
    N, S = alpha.shape
    alpha, energy = alpha.contiguous(), energy.contiguous()
    beta, top, spent = (torch.empty_like(alpha) for _ in range(3))
    _launch("chunk_tops", alpha, energy, top, spent, N, S, chunk, rows=N, S=S)
    _launch("chunkwise", energy, top, spent, beta, N, S, chunk, rows=N, S=S)
    return beta, top, spent


@_chunkwise.register_fake
def _(alpha: Tensor, energy: Tensor, chunk: int) -> tuple[Tensor, Tensor, Tensor]:
    beta, top, spent = (alpha.new_empty(alpha.shape) for _ in range(3))
    return beta, top, spent


@torch.library.custom_op("simulmt::cuda_chunkwise_adjoint", mutates_args=())
def _chunkwise_adjoint(
    grad: Tensor, energy: Tensor, top: Tensor, spent: Tensor, chunk: int
) -> tuple[Tensor, Tensor]:
    N, S = energy.shape
    grad, energy = grad.contiguous(), energy.contiguous()
    mean, grad_energy = torch.empty_like(energy), torch.empty_like(energy)
    _launch("chunk_means", grad, energy, mean, N, S, chunk, rows=N, S=S)
    _launch(
        "chunkwise_adjoint", grad, energy, top, spent, mean, grad_energy, N, S, chunk, rows=N, S=S
    )
    return mean, grad_energy


@_chunkwise_adjoint.register_fake
def _(grad: Tensor, energy: Tensor, *_: Any) -> tuple[Tensor, Tensor]:
    return energy.new_empty(energy.shape), energy.new_empty(energy.shape)


def _chunkwise_setup(ctx: Any, inputs: tuple[Any, ...], output: tuple[Any, ...]) -> None:
    ctx.save_for_backward(inputs[1], *output[1:])
    ctx.mark_non_differentiable(*output[1:])
    ctx.set_materialize_grads(False)  # or gradients of zeros are made for them every time
    ctx.chunk = inputs[2]


def _chunkwise_backward(
    ctx: Any, grad: Tensor | None, *_: Any
) -> tuple[Tensor | None, Tensor | None, None]:
    if grad is None:
        return None, None, None
    grad_alpha, grad_energy = _chunkwise_adjoint(grad, *ctx.saved_tensors, ctx.chunk)
    return grad_alpha, grad_energy, None


_chunkwise.register_autograd(_chunkwise_backward, setup_context=_chunkwise_setup)


def chunkwise(
    alpha: Float[Tensor, "N S"], energy: Float[Tensor, "N S"], chunk: int
) -> Float[Tensor, "N S"]:
    """Expected attention over chunks; see `reference.chunkwise`."""
    beta: Tensor = _chunkwise(alpha, energy, chunk)[0]
    return beta
