"""Learning-rate schedules and Adam's options."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch

from simulmt.errors import UserError
from simulmt.training.module import TranslationModule
from simulmt.training.optimiser import InverseSquareRoot, RnmtPlusRate, make_adam

ADAM = {"beta1": 0.9, "beta2": 0.98, "eps": 1e-9}
SQUARE_ROOT: dict[str, Any] = {"schedule": "inverse_sqrt", "lr": 2e-3, "warmup": 500, **ADAM}
RNMT: dict[str, Any] = {
    "schedule": "rnmt_plus",
    "lr": 1e-4,
    "replicas": 8,
    "warmup": 50,
    "decay_start": 8000,
    "decay_end": 16000,
    **ADAM,
}


def test_the_square_root_peaks_when_the_warm_up_ends():
    rate = InverseSquareRoot(lr=2e-3, warmup=500)
    shares = [rate.factor(update) for update in range(4000)]
    assert max(shares) == shares[499] == 1.0
    assert shares[0] == pytest.approx(1 / 500)
    assert shares[1999] == pytest.approx(1 / 2)  # four times as late, half as much


def test_rnmt_plus_grows_to_n_stays_and_falls_to_a_half():
    n, warmup, start, end = 8, 50, 8000, 16000
    rate = RnmtPlusRate(lr=1e-4, replicas=n, warmup=warmup, decay_start=start, decay_end=end)
    assert rate.factor(0) == 1
    ramp = [rate.factor(update) for update in range(n * warmup + 1)]
    assert ramp == sorted(ramp)
    assert ramp[-1] == pytest.approx(n)
    assert ramp[n * warmup // 2] == pytest.approx((1 + n) / 2)
    assert {rate.factor(update) for update in range(n * warmup, start // n + 1)} == {n}
    # the exponential from s to e: a factor of 2n in all, its square root half way
    assert rate.factor(end // n) == pytest.approx(n / (2 * n))
    assert rate.factor((start + end) // (2 * n)) == pytest.approx(n / (2 * n) ** 0.5)
    assert rate.factor(10 * end) == rate.factor(end // n)


def test_a_decay_before_the_end_of_the_growth_takes_the_lower_of_the_two():
    rate = RnmtPlusRate(lr=1e-4, replicas=32, warmup=500, decay_start=400_000, decay_end=1_200_000)
    shares = [rate.factor(update) for update in range(40_000)]
    peak = shares.index(max(shares))
    assert 400_000 / 32 < peak < 32 * 500
    assert max(shares) < 32
    assert shares[:peak] == sorted(shares[:peak])
    assert shares[peak:] == sorted(shares[peak:], reverse=True)


@pytest.mark.parametrize("options", [SQUARE_ROOT, RNMT])
def test_torch_follows_the_schedule_that_is_logged(options):
    adam = make_adam(options)
    parameter = torch.nn.Parameter(torch.zeros(1))
    module = SimpleNamespace(optimiser=adam, parameters=lambda: [parameter])
    made: Any = TranslationModule.configure_optimizers(module)  # type: ignore[arg-type]
    optimiser, scheduler = made["optimizer"], made["lr_scheduler"]["scheduler"]
    for update in range(1500):
        assert optimiser.param_groups[0]["lr"] == pytest.approx(adam.lr(update), rel=1e-12)
        optimiser.step()
        scheduler.step()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({**SQUARE_ROOT, "replicas": 2}, "no option replicas; its options are: schedule, lr, war"),
        ({k: v for k, v in RNMT.items() if k != "decay_end"}, "lacks a value for decay_end"),
        ({**RNMT, "decay_end": 8000}, "optim.decay_end 8000; .*: raise decay_end"),
    ],
)
def test_wrong_options_are_refused(options, said):
    with pytest.raises(UserError, match=said):
        make_adam(options)


def test_adam_has_the_settings_that_are_given():
    options = {"schedule": "inverse_sqrt", "lr": 2e-3, "warmup": 500}
    adam = make_adam(options | {"beta1": 0.7, "beta2": 0.9, "eps": 1e-4})
    module = SimpleNamespace(optimiser=adam, parameters=lambda: [torch.nn.Parameter(torch.ones(1))])
    made: Any = TranslationModule.configure_optimizers(module)  # type: ignore[arg-type]
    (group,) = made["optimizer"].param_groups
    assert (group["betas"], group["eps"], group["weight_decay"]) == ((0.7, 0.9), 1e-4, 0)
    assert made["lr_scheduler"]["interval"] == "step"
