"""The guard against NaN: training ends in one line, and no checkpoint keeps or brings NaN."""

import pytest
import torch

from simulmt.errors import UserError
from simulmt.training.finite import FiniteUpdates
from small_runs import metrics, run, weights


@pytest.mark.parametrize("loss", [1.5, torch.nan])
def test_the_first_update_that_is_not_finite_is_named(loss):
    guard = FiniteUpdates(0)
    for update, norm in enumerate([1.0, torch.inf if loss == 1.5 else 1.0, torch.nan], 1):
        guard.watch(update, torch.tensor(loss if update == 2 else 1.5), torch.tensor(norm))
    with pytest.raises(UserError, match=f"update 2 .*{loss}"):
        guard.check()


def test_as_many_updates_in_a_row_as_allowed_are_skipped():
    guard = FiniteUpdates(2)
    norms = [1.0, torch.inf, torch.nan, 1.0, torch.inf, torch.inf]
    masks = [guard.watch(n, torch.tensor(1.5), torch.tensor(x)) for n, x in enumerate(norms, 1)]
    assert [mask.item() for mask in masks] == [0, 1, 1, 0, 1, 1]
    assert guard.check() == 4
    guard.watch(7, torch.tensor(torch.nan), torch.tensor(1.0))
    with pytest.raises(UserError, match=r"update 7, the last of 3 in a row, is not finite"):
        guard.check()


def test_a_run_ends_before_it_keeps_what_is_not_finite_and_resumes(tmp_path, cache):
    with pytest.raises(UserError, match=r"update 4 is not finite: its loss is .*; lower optim.lr"):
        run(tmp_path, cache, "lambda=1e25", "objective.hold=3", "trainer.log_every=50")
    kept = weights(tmp_path)
    assert all(value.isfinite().all() for value in kept.values())
    assert [row["step"] for row in metrics(tmp_path) if row["valid/BLEU"]] == ["2"]
    run(tmp_path, cache, "ckpt_path=last")
    assert not all(torch.equal(value, kept[name]) for name, value in weights(tmp_path).items())


def test_an_update_that_is_not_finite_changes_nothing(tmp_path, cache):
    """Weights and moments stay as they were; updates and learning rate go on."""
    diverging = ["lambda=1e25", "objective.hold=3", "trainer.skip=3", "trainer.average=2"]
    run(tmp_path, cache, *diverging)
    before, after = (
        torch.load(tmp_path / "checkpoints" / f"step-{step:07d}.ckpt") for step in (3, 6)
    )
    assert (before["global_step"], after["global_step"]) == (3, 6)
    assert all(torch.equal(after["state_dict"][k], v) for k, v in before["state_dict"].items())
    moments = (each["optimizer_states"][0]["state"] for each in (before, after))
    for old, new in zip(*map(dict.values, moments), strict=True):
        assert all(torch.equal(old[name], new[name]) for name in old)
    assert [row["train/skipped"] for row in metrics(tmp_path) if row["train/loss"]] == (
        ["0"] * 4 + ["1", "2"]
    )
