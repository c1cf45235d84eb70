"""The two operations that train every monotonic attention, as pure functions of tensors.

    alpha = expected_alignment(p)               # where the heads stop
    beta = expected_attention(alpha, energy)    # what the heads attend to

`expected_alignment_and_attention(logit, energy)` computes both in one pass from the logits of p.

Backends: `reference` (loops that read like the equations; any device, any derivative), `cpu` (the
same loops, compiled, with hand-written adjoints) and `cuda` (the same adjoints as scans in Triton,
for GPUs). `auto` takes the fast backend of the tensors' device, or the reference if there is none.
float64 is computed in float64 and every other type in float32, even under autocast: alpha is a
product of up to S probabilities, for which half precision is too coarse.
"""

import math
from types import ModuleType

import torch
from jaxtyping import Float
from torch import Tensor

from simulmt.ops import cpu, cuda, reference

__all__ = [
    "BACKENDS",
    "expected_alignment",
    "expected_alignment_and_attention",
    "expected_attention",
]

BACKENDS = ("auto", "reference", "cpu", "cuda")


def expected_alignment(
    p: Float[Tensor, "*N T S"],
    initial: Float[Tensor, "*N S"] | None = None,
    backend: str = "auto",
) -> Float[Tensor, "*N T S"]:
    """Probability alpha_ij that the head of target step i stops at source position j.

        q_ij = (1 - p_i,j-1) q_i,j-1 + alpha_i-1,j        alpha_ij = p_ij q_ij

    (Raffel et al. 2017; MILk, Arivazhagan et al. 2019, eq. 10; MMA, Ma et al. 2020, eq. 4.)
    Every intermediate result lies in [0, 1]: there is no division, no clamp and no epsilon. A head
    that stops nowhere loses its mass; to preserve all mass, set p to 1 at the last token.

    Args:
        p: probability of stopping at j, having arrived there in step i; 0 at padding.
        initial: alpha_0, the row before the first row, such as the last row of an earlier call. By
            default the head starts at the first position.
        backend: one of `BACKENDS`.

    Returns:
        alpha in float64 if `p` is float64, otherwise in float32.

    Raises:
        ValueError: the backend does not exist, or cannot run here.
    """
    ops = _backend(backend, p)
    rows = _rows(p, _dtype(p))
    alpha: Tensor = ops.alignment(rows, _row_before(rows, p, initial))
    return alpha.reshape(p.shape)


def expected_attention(
    alpha: Float[Tensor, "*N T S"],
    energy: Float[Tensor, "*N T S"],
    chunk: int | None = None,
    backend: str = "auto",
) -> Float[Tensor, "*N T S"]:
    """Expected weight beta_ij of source position j in the context of target step i.

        beta_ij = sum_{k=j}^{S} alpha_ik exp(u_ij) / sum_{l=1}^{k} exp(u_il)

    with infinite lookback (MILk eq. 14, Arivazhagan et al. 2019; MMA-IL, Ma et al. 2020), and over
    chunks (MoChA, Chiu & Raffel 2018) with k <= j + c - 1 and l >= k - c + 1. A row of beta
    sums to what the row of alpha sums to, at any finite energy.

    Args:
        alpha: expected alignment.
        energy: soft energy u; any finite value at padding.
        chunk: c, the number of positions up to the stop that the head attends to; None for all.
            With 1 the result is alpha itself, and `energy` gets no gradient.
        backend: one of `BACKENDS`.

    Returns:
        beta in float64 if an input is float64, otherwise in float32.

    Raises:
        ValueError: shapes differ, the chunk is below 1, or the backend cannot run here.
    """
    _check_shapes(alpha, energy, "alpha")
    if chunk is not None and chunk < 1:
        raise ValueError(f"chunk must be at least 1 (got {chunk}), or None for infinite lookback")
    ops = _backend(backend, alpha, energy)
    dtype = _dtype(alpha, energy)
    if chunk == 1:
        return alpha.to(dtype)
    mass, u = (_rows(x, dtype).flatten(0, 1) for x in (alpha, energy))  # (*N, T, S) -> (N T, S)
    if chunk is None or chunk >= alpha.shape[-1]:
        beta: Tensor = ops.lookback(mass, u)
    else:
        beta = ops.chunkwise(mass, u, chunk)
    return beta.reshape(alpha.shape)


def expected_alignment_and_attention(
    logit: Float[Tensor, "*N T S"],
    energy: Float[Tensor, "*N T S"],
    initial: Float[Tensor, "*N S"] | None = None,
    backend: str = "auto",
) -> tuple[Float[Tensor, "*N T S"], Float[Tensor, "*N T S"]]:
    """Expected alignment, and expected attention with infinite lookback, in one pass.

    Equal to `alpha = expected_alignment(logit.sigmoid(), initial)` and then
    `expected_attention(alpha, energy)`, but the CPU's kernel reads p and alpha only once.

    Args:
        logit: log odds of stopping at j, having arrived there in step i; -inf at padding, +inf
            where the head must stop.
        energy: as for `expected_attention`.
        initial: as for `expected_alignment`.
        backend: one of `BACKENDS`.

    Returns:
        alpha and beta, in float64 if an input is float64, otherwise in float32.

    Raises:
        ValueError: shapes differ, or the backend does not exist or cannot run here.
    """
    _check_shapes(logit, energy, "logit")
    dtype = _dtype(logit, energy)
    if _backend(backend, logit, energy) is not cpu:
        alpha = expected_alignment(logit.to(dtype).sigmoid(), initial, backend)
        return alpha, expected_attention(alpha, energy, None, backend)
    rows, u = (_rows(x, dtype) for x in (logit, energy))
    alpha, beta = cpu.alignment_lookback(rows, u, _row_before(rows, logit, initial))
    return alpha.reshape(logit.shape), beta.reshape(logit.shape)


def _rows(x: Float[Tensor, "*N T S"], dtype: torch.dtype) -> Float[Tensor, "N T S"]:
    *leading, T, S = x.shape
    return x.to(dtype).reshape(math.prod(leading), T, S)  # (*N, T, S) -> (N, T, S)


def _row_before(
    rows: Float[Tensor, "N T S"],
    p: Float[Tensor, "*N T S"],
    initial: Float[Tensor, "*N S"] | None,
) -> Float[Tensor, "N S"]:
    """alpha_0: `initial`, by default all mass at the first position."""
    N, _, S = rows.shape
    if initial is None:
        return torch.eye(1, S, dtype=rows.dtype, device=rows.device).repeat(N, 1)
    return initial.to(rows.dtype).expand(*p.shape[:-2], S).reshape(N, S)  # (*N, S) -> (N, S)


def _check_shapes(first: Tensor, energy: Tensor, name: str) -> None:
    if first.shape != energy.shape:
        raise ValueError(
            f"{name} has shape {tuple(first.shape)} and energy {tuple(energy.shape)}; both must be "
            "(..., T, S): expand the smaller one"
        )


def _dtype(*tensors: Tensor) -> torch.dtype:
    return torch.float64 if any(x.dtype == torch.float64 for x in tensors) else torch.float32


def _backend(name: str, *tensors: Tensor) -> ModuleType:
    device = next((x.device.type for x in tensors if x.device.type != "cpu"), "cpu")
    elsewhere = f"needs tensors on the CPU, but one is on {device!r}"
    obstacles = {  # the fastest first
        "cpu": None if device == "cpu" else elsewhere,
        "cuda": cuda.obstacle(device, tensors[0].shape[-1]),
        "reference": None,
    }
    if name == "auto":
        name = next(x for x, obstacle in obstacles.items() if obstacle is None)
    if obstacle := obstacles.get(name, f"does not exist ({', '.join(BACKENDS)} do)"):
        raise ValueError(
            f"backend={name!r} {obstacle}; take backend='auto' or 'reference', or move the tensor"
        )
    return {"cpu": cpu, "cuda": cuda, "reference": reference}[name]
