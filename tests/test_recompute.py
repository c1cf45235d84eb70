"""`trainer.recompute=true` changes the memory of a training step and nothing else."""

import pytest
import torch
from steps import peak_bytes

import zoo
from simulmt.attention import Moment
from simulmt.errors import UserError
from simulmt.parts.builders import build_objective
from simulmt.programs.plain import plain
from simulmt.programs.train import train
from small_runs import SMALL, configuration
from test_self_modifying import DRAW, a_batch

NAMES = sorted(path.stem for path in (zoo.CONF / "mechanism").glob("*.yaml"))


@pytest.mark.parametrize("name", NAMES)
def test_losses_and_gradients_are_the_same_to_the_last_digit(name: str) -> None:
    model = zoo.model(zoo.options(name), dropout=0.3).train()
    config = plain(configuration("train", *SMALL, f"mechanism={name}"))
    objective, found = build_objective(config["objective"]), []
    for _ in range(2):
        torch.manual_seed(0)  # dropout and noise
        model.zero_grad()
        loss = objective(model, a_batch(), Moment(50, 100, DRAW))
        loss.total.backward()
        found.append((loss.total, *(p.grad for p in model.parameters() if p.grad is not None)))
        model.recompute_layers()
    for one, other in zip(*found, strict=True):
        assert torch.equal(one, other)


def test_a_step_needs_less_memory() -> None:
    model = zoo.model(zoo.options("mma_il"), encoder_layers=4, decoder_layers=4).train()

    def step() -> None:
        model(*a_batch()[:2], a_batch().target_input).states.sum().backward()

    step()
    before = peak_bytes(step)
    model.recompute_layers()
    assert peak_bytes(step) < 0.7 * before


@pytest.mark.parametrize("name", ["rnmt_plus", "luong"])
def test_models_that_go_token_by_token_reject_it(name: str, tmp_path) -> None:
    overrides = [f"model={name}", "mechanism=soft", "trainer.recompute=true"]
    with pytest.raises(UserError, match=f"model.name={name}.*recompute=false"):
        train(configuration("train", *overrides), str(tmp_path))
