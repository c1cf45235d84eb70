"""Learning-rate schedules and Adam's options."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
import yaml

from simulmt.errors import UserError
from simulmt.training.module import TranslationModule
from simulmt.training.optimiser import InverseSquareRoot, RnmtPlusRate, make_adam

GROUP = Path(__file__).parents[1] / "conf" / "optim"
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


def test_a_single_replica_never_exceeds_its_learning_rate():
    rate = RnmtPlusRate(lr=1e-4, replicas=1, warmup=50, decay_start=100, decay_end=200)
    shares = [rate.factor(update) for update in range(400)]
    assert set(shares[:101]) == {1}
    assert shares == sorted(shares, reverse=True)


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


@pytest.mark.parametrize("path", sorted(GROUP.glob("*.yaml")), ids=lambda path: path.stem)
def test_every_file_of_the_group_makes_an_adam(path):
    options = yaml.safe_load(path.read_text(encoding="utf-8"))
    for base in options.pop("defaults", []):
        if base != "_self_":
            options = yaml.safe_load((GROUP / f"{base}.yaml").read_text(encoding="utf-8")) | options
    # YAML 1.1, unlike Hydra, reads 1e-4 as a string
    numbers = {k: float(v) if k in ("lr", "eps") else v for k, v in options.items()}
    assert make_adam(numbers).lr(0) > 0


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({**SQUARE_ROOT, "replicas": 2}, "no option replicas; its options are: schedule, lr, war"),
        ({k: v for k, v in RNMT.items() if k != "decay_end"}, "lacks a value for decay_end"),
        ({**RNMT, "schedule": "cosine"}, "'cosine'; choose one of inverse_sqrt, rnmt_plus"),
        (ADAM, "optim.schedule is 'None'; choose one of"),
        ({**SQUARE_ROOT, "warmup": "long"}, "optim.warmup is 'long'"),
        ({**SQUARE_ROOT, "warmup": 0}, "optim.warmup is 0; it must be at least 1"),
        ({**SQUARE_ROOT, "lr": 0.0}, "optim.lr is 0.0; it must be above 0"),
        ({**SQUARE_ROOT, "beta2": 1.0}, "optim.beta2 is 1.0"),
        ({**RNMT, "replicas": 0}, "optim.replicas is 0; it must be at least 1"),
        ({**RNMT, "decay_end": 8000}, "optim.decay_end 8000; .*: raise decay_end"),
    ],
)
def test_wrong_options_are_refused(options, said):
    with pytest.raises(UserError, match=said):
        make_adam(options)
