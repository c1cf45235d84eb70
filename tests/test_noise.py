"""The noise of monotonic attention: standard normal numbers, each from the hash of its place."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from hashes import by_the_book
from simulmt.ops.dropout import STEPS, new_seed
from simulmt.ops.noise import noisy_

N = 1 << 20
SIGMAS = 5  # one good generator in two million fails


def noise(seed: int, n: int = N, dtype: torch.dtype = torch.float32) -> Tensor:
    torch.manual_seed(seed)
    return noisy_(torch.zeros(n, dtype=dtype), 1.0)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_each_number_is_the_quantile_of_its_hash(dtype: torch.dtype) -> None:
    torch.manual_seed(2)
    hashes = by_the_book(new_seed(), N)
    tail = (hashes % (STEPS // 2)).double().add(0.5) / STEPS
    expected = torch.special.ndtri(tail) * (hashes - STEPS / 2 + 0.5).sign()
    # the approximation in float32 is good to a few units in the last place
    torch.testing.assert_close(noise(2, dtype=dtype).double(), expected, rtol=2e-6, atol=2e-6)


def test_numbers_are_standard_normal() -> None:
    x = noise(3).double().sort().values
    distance = (torch.special.ndtr(x) - torch.arange(0.5, N) / N).abs().max()
    assert distance < 2 * N**-0.5  # Kolmogorov-Smirnov: p is below 0.001 beyond 1.95
    for power, moment, spread in ((1, 0, 1), (2, 1, 2**0.5), (3, 0, 15**0.5), (4, 3, 96**0.5)):
        assert abs(x.pow(power).mean() - moment) < SIGMAS * spread * N**-0.5


@pytest.mark.parametrize("lag", [1, 16, 1 << 12])
def test_numbers_are_independent_of_each_other(lag: int) -> None:
    x = noise(4).double()
    assert (x[lag:] * x[:-lag]).mean().abs() < SIGMAS * (N - lag) ** -0.5
    assert (x * noise(5).double()).mean().abs() < SIGMAS * N**-0.5


def test_a_seed_gives_the_same_numbers_on_any_number_of_threads() -> None:
    threads = torch.get_num_threads()
    alone = noise(6)
    try:
        torch.set_num_threads(4)
        assert torch.equal(noise(6), alone)
    finally:
        torch.set_num_threads(threads)
    assert not torch.equal(noise(7), alone)


def test_the_noise_is_added_in_place_and_scaled() -> None:
    x = torch.linspace(-2, 2, 1000)
    torch.manual_seed(8)
    y = noisy_(x.clone(), 3.0)
    torch.testing.assert_close(y, x + 3 * noise(8, 1000))
    torch.manual_seed(8)
    assert noisy_(x, 3.0) is x


def test_the_gradient_passes_unchanged() -> None:
    x = torch.randn(5, 7, dtype=torch.float64, requires_grad=True)
    y = noisy_(x * 2, 0.5).square().sum()
    y.backward()
    torch.manual_seed(0)
    assert x.grad is not None
    torch.testing.assert_close(y, (x.grad / 4).square().sum())  # dy/dx = 4 (2 x + noise)


def test_strided_and_half_precision_numbers_take_torchs_noise() -> None:
    for x in (torch.zeros(64, 64).t(), torch.zeros(64, 64, dtype=torch.bfloat16)):
        torch.manual_seed(9)
        own = noisy_(x.clone(), 1.0)
        torch.manual_seed(9)
        assert torch.equal(own, torch.zeros_like(x).add_(torch.randn_like(x)))
