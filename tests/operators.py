"""Inputs that break the usual formulas of the two operations, and how to compare results."""

from __future__ import annotations

import torch
from torch import Tensor

from simulmt.ops import expected_alignment, expected_attention

# What the project promises. Values here are at most about 1 (gradients are weighted by numbers of
# size 1 and scaled to at most 1), and a float32 rounding is 6e-8. A row of a few hundred positions
# may add up 170 roundings, while the closed form is wrong by 0.2 or more.
FAST = 1e-5
# float64 against float64 with sums in another order: a few hundred roundings of 1e-16.
EXACT = 1e-12


def case(name: str, N: int, T: int, S: int) -> tuple[Tensor, Tensor]:
    """Probabilities and energies in float64 of the kinds that break the usual formulas."""
    generator = torch.Generator().manual_seed(S * 1000 + T)
    noise = torch.randn(N, T, S, generator=generator, dtype=torch.float64)
    energy = torch.randn(N, T, S, generator=generator, dtype=torch.float64)
    p = torch.rand(N, T, S, generator=generator, dtype=torch.float64)
    if name == "near-binary":
        p = torch.sigmoid(4 * noise)
    elif name == "exactly-0-and-1":
        p = torch.where(noise.abs() < 0.5, p, (noise > 0).double())
    elif name == "energies-1e4":
        energy = energy.sign() * 1e4 * p
    elif name == "padded":
        lengths = torch.arange(N).remainder(S) + 1
        real = torch.arange(S) < lengths[:, None, None]
        p = torch.where(torch.arange(S) == lengths[:, None, None] - 1, 1.0, p) * real
    return p, energy


CASES = ["uniform", "near-binary", "exactly-0-and-1", "energies-1e4", "padded"]


def every_case(N: int, T: int, S: int) -> tuple[Tensor, Tensor, Tensor]:
    """p, energy (N, T, S) and initial (N, S), with the cases in turns from row to row."""
    pairs = zip(*(case(name, N, T, S) for name in CASES), strict=True)
    rows = torch.arange(N)
    p, energy = (torch.stack(x)[rows % len(CASES), rows] for x in pairs)
    return p, energy, case("uniform", 1, N, S)[0][0].softmax(-1)


def close(actual: Tensor, expected: Tensor, tolerance: float) -> None:
    """Assert that the two differ by at most `tolerance` times the largest expected value, or 1."""
    scale = expected.abs().max().clamp(min=1) if expected.numel() else torch.ones(())
    torch.testing.assert_close(
        actual.double() / scale, expected.double() / scale, rtol=0, atol=tolerance
    )


def each_close(actual: Tensor, expected: Tensor, tolerance: float) -> None:
    """The same for results from `every_case`, each case by itself."""
    for kind in range(len(CASES)):
        close(actual[kind :: len(CASES)], expected[kind :: len(CASES)], tolerance)


def outputs_and_gradients(
    p: Tensor,
    energy: Tensor,
    initial: Tensor,
    chunk: int | None,
    backend: str,
    device: str = "cpu",
) -> dict[str, Tensor]:
    """alpha, beta and the inputs' gradients, computed on `device` and returned on the CPU."""
    p, energy, initial = (
        x.detach().to(device, copy=True).requires_grad_() for x in (p, energy, initial)
    )
    alpha = expected_alignment(p, initial, backend=backend)
    beta = expected_attention(alpha, energy, chunk=chunk, backend=backend)
    generator = torch.Generator().manual_seed(1)
    weights = [
        torch.randn(p.shape, generator=generator, dtype=torch.float64).to(device) for _ in range(2)
    ]
    ((alpha.double() * weights[0]).sum() + (beta.double() * weights[1]).sum()).backward()
    gradients = {"dp": p.grad, "denergy": energy.grad, "dinitial": initial.grad}
    return {"alpha": alpha.detach().cpu(), "beta": beta.detach().cpu()} | {
        name: torch.zeros(()) if x is None else x.cpu() for name, x in gradients.items()
    }
