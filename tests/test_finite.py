"""The guard against NaN: such an update changes nothing, and no checkpoint keeps NaN."""

import pytest
import torch

from simulmt.errors import UserError
from simulmt.saved import checkpoint
from simulmt.training.finite import FiniteUpdates, check_parameters
from small_runs import metrics, run, weights

BAD = [(torch.nan, 1.0), (1.0, torch.inf), (-torch.inf, torch.nan)]


def one_update(guard: FiniteUpdates, model, adam, update: int, loss: float, norm: float) -> None:
    for parameter in model.parameters():
        parameter.grad = torch.full_like(parameter, norm)
    guard.judge(adam, update, torch.tensor(loss), torch.tensor(norm))
    adam.step()


@pytest.fixture
def trained():
    torch.manual_seed(0)
    model = torch.nn.Linear(3, 2)
    adam = torch.optim.Adam(model.parameters(), lr=0.1, fused=True)
    guard = FiniteUpdates(skip=2)
    one_update(guard, model, adam, 1, 1.0, 1.0)
    return guard, model, adam


def state(model, adam) -> list[torch.Tensor]:
    moments = [value for each in adam.state.values() for value in each.values()]
    return [value.clone() for value in [*model.parameters(), *moments]]


@pytest.mark.parametrize(("loss", "norm"), BAD)
def test_an_update_that_is_not_finite_changes_nothing(loss, norm, trained):
    guard, model, adam = trained
    before = state(model, adam)
    one_update(guard, model, adam, 2, loss, norm)
    assert all(map(torch.equal, before, state(model, adam)))
    one_update(guard, model, adam, 3, 1.0, 1.0)
    assert not any(map(torch.equal, before, state(model, adam)))


def test_several_in_a_row_end_the_training_and_the_first_is_named(trained):
    guard, model, adam = trained
    for update, norm in enumerate([torch.inf, 1.0, torch.nan, torch.nan, 1.0, 1.0], 2):
        one_update(guard, model, adam, update, 1.5, norm)
        guard.check()
    for update in (8, 9, 10):
        one_update(guard, model, adam, update, 1.5, torch.nan)
    with pytest.raises(UserError, match=r"update 2 is not finite: its loss is 1\.5, .* inf; lower"):
        guard.check()


def test_parameters_that_are_not_finite_are_refused(trained):
    model = trained[1]
    check_parameters(model, 1)
    model.bias.data[1] = torch.inf
    with pytest.raises(UserError, match=r"after 1,200 updates a parameter is inf; lower optim.lr"):
        check_parameters(model, 1200)


def test_a_run_ends_before_it_keeps_what_is_not_finite_and_resumes(tmp_path, cache):
    with pytest.raises(UserError, match=r"update 4 is not finite: its loss is .*; lower optim.lr"):
        run(tmp_path, cache, "lambda=1e36", "objective.hold=3", "trainer.log_every=50")
    kept = weights(tmp_path)
    assert all(value.isfinite().all() for value in kept.values())
    assert [row["step"] for row in metrics(tmp_path) if row["valid/BLEU"]] == ["2"]
    run(tmp_path, cache, "ckpt_path=last")
    assert not all(torch.equal(value, kept[name]) for name, value in weights(tmp_path).items())


def test_a_checkpoint_that_is_not_finite_is_refused(trained_once, tmp_path):
    content = torch.load(trained_once("mechanism=soft") / "checkpoints/best.ckpt")
    content["state_dict"]["model.embedding.weight"][3, 1] = torch.nan
    torch.save(content, tmp_path / "bad.ckpt")
    with pytest.raises(UserError, match=r"bad.ckpt: its parameter embedding.weight is not finite"):
        checkpoint.load(tmp_path / "bad.ckpt")
