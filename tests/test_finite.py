"""The guard against NaN: training ends in one line, and no checkpoint keeps or brings NaN."""

import contextlib

import pytest
import torch

from simulmt.errors import UserError
from simulmt.saved import checkpoint
from simulmt.training.finite import FiniteUpdates, check_parameters
from small_runs import metrics, run, weights


def test_the_first_update_that_is_not_finite_is_named():
    guard = FiniteUpdates(0)
    for update, norm in enumerate([1.0, torch.inf, 1.0, torch.nan], 1):
        guard.found_inf(update, torch.tensor(1.5), torch.tensor(norm))
    with pytest.raises(UserError, match=r"update 2 is not finite: its loss is 1\.5, .* inf; lower"):
        guard.skipped()


def test_as_many_updates_in_a_row_as_allowed_are_skipped():
    guard = FiniteUpdates(2)
    norms = [1.0, torch.inf, torch.nan, 1.0, torch.inf, torch.inf]
    masks = [guard.found_inf(n, torch.tensor(1.5), torch.tensor(x)) for n, x in enumerate(norms, 1)]
    assert [mask.item() for mask in masks] == [0, 1, 1, 0, 1, 1]
    assert guard.skipped() == 4
    guard.found_inf(7, torch.tensor(torch.nan), torch.tensor(1.0))
    with pytest.raises(UserError, match=r"update 7, the last of 3 in a row, is not finite"):
        guard.skipped()


@pytest.mark.parametrize(("loss", "finite"), [(1.5, True), (torch.nan, False), (-torch.inf, False)])
def test_the_loss_counts_as_the_gradient_does(loss, finite):
    guard = FiniteUpdates(0)
    guard.found_inf(1, torch.tensor(loss), torch.tensor(2.0))
    with contextlib.nullcontext() if finite else pytest.raises(UserError, match="update 1 is not"):
        guard.skipped()


def test_parameters_that_are_not_finite_are_refused():
    model = torch.nn.Linear(3, 2)
    check_parameters(model, 1)
    model.bias.data[1] = torch.inf
    with pytest.raises(UserError, match=r"after 1,200 updates a parameter is inf; lower optim.lr"):
        check_parameters(model, 1200)


def test_a_run_ends_before_it_keeps_what_is_not_finite_and_resumes(tmp_path, cache):
    with pytest.raises(UserError, match=r"update 4 is not finite: its loss is .*; lower optim.lr"):
        run(tmp_path, cache, "lambda=1e25", "objective.hold=3", "trainer.log_every=50")
    kept = weights(tmp_path)
    assert all(value.isfinite().all() for value in kept.values())
    assert [row["step"] for row in metrics(tmp_path) if row["valid/BLEU"]] == ["2"]
    following = tmp_path / "following"  # with another lambda
    run(following, cache, f"ckpt_path={tmp_path / 'checkpoints' / 'last.ckpt'}")
    assert not all(torch.equal(value, kept[name]) for name, value in weights(following).items())


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


def test_a_checkpoint_that_is_not_finite_is_refused(trained_once, tmp_path):
    content = torch.load(trained_once("mechanism=soft") / "checkpoints/best.ckpt")
    content["state_dict"]["model.embedding.weight"][3, 1] = torch.nan
    torch.save(content, tmp_path / "bad.ckpt")
    with pytest.raises(UserError, match=r"its parameter model.embedding.weight .* finite"):
        checkpoint.load(tmp_path / "bad.ckpt")
