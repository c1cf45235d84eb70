"""`trainer.compile=true` changes nothing but rounding, and only in training steps."""

from functools import partial

import pytest
import torch

import zoo
from simulmt.attention import Moment
from simulmt.data.encoded import EncodedSplit
from simulmt.errors import UserError
from simulmt.parts.builders import build_objective
from simulmt.programs.plain import plain
from simulmt.programs.train import train
from simulmt.training.compiled import compiled_model
from small_runs import SMALL, configuration

pytestmark = [  # of torch's own modules
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor:UserWarning"),
]
NEAR = {"rtol": 1e-5, "atol": 1e-7}
"""Sinusoids are float32, and fused code rounds them in another way; all else is float64."""
BACKENDS = ["aot_eager", "inductor"]
"""The graphs run operator by operator, and as training runs them, in generated code."""


def batch(longest: int):
    torch.manual_seed(longest)
    words = torch.randint(4, zoo.VOCABULARY, (3, 2, longest)).tolist()
    pairs = ((x[i:], y[2 * i :]) for i, (x, y) in enumerate(words))
    return EncodedSplit.of(*zip(*pairs, strict=True), zoo.SPECIAL).batch(range(3))


def losses_and_gradients(model, objective, data, update):
    torch.manual_seed(0)  # of the noise of a learned schedule
    loss = objective(model, data, Moment(update, 100))
    loss.total.backward()
    found = {name: p.grad for name, p in model.named_parameters()}
    model.zero_grad()
    return loss.total.detach(), found


@pytest.mark.slow
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", ["soft", "mma_il", "wait_k"])
def test_compiled_steps_have_the_same_losses_and_gradients(name, backend, monkeypatch):
    torch._dynamo.reset()
    monkeypatch.setattr(torch, "compile", partial(torch.compile, backend=backend))
    options = zoo.options(name)
    quiet = options | {"noise": 0.0} if "noise" in options else options  # others are drawn
    model = zoo.model(quiet).train()
    objective = build_objective(
        plain(configuration("train", *SMALL, f"mechanism={name}", "lambda=0.2"))["objective"]
    )
    graphs, training = [], compiled_model(model)
    for update, longest in enumerate((9, 6, 13, 21, 8)):
        data = batch(longest)
        want = losses_and_gradients(model, objective, data, update)
        with training():
            got = losses_and_gradients(model, objective, data, update)
        torch.testing.assert_close(got, want, **NEAR)
        graphs.append(torch._dynamo.utils.counters["stats"]["unique_graphs"])
    assert graphs[0] > 0, "nothing is compiled"
    assert graphs[2] == graphs[-1], "other lengths are compiled again"


def test_nothing_but_a_training_step_is_compiled():
    model = zoo.model(zoo.options("soft"))
    names, methods = [*model.state_dict()], (model.encode, model.decode)
    training = compiled_model(model)
    with training():
        assert model.encode != methods[0]
        assert model.decode != methods[1]
        assert [*model.state_dict()] == names
    assert (model.encode, model.decode) == methods


def test_without_a_compiler_a_run_is_refused_at_once(tmp_path, monkeypatch):
    monkeypatch.setenv("CXX", str(tmp_path / "g++"))
    with pytest.raises(UserError, match=r"compile=true needs a C\+\+ compiler, but .* is not inst"):
        train(configuration("train", "mechanism=soft", "trainer.compile=true"), str(tmp_path))


@pytest.mark.parametrize("name", ["rnmt_plus", "luong"])
def test_models_that_go_token_by_token_are_not_compiled(name, tmp_path):
    overrides = [f"model={name}", "mechanism=soft", "trainer.compile=true"]
    with pytest.raises(UserError, match=f"model.name={name}.*compile=false"):
        train(configuration("train", *overrides), str(tmp_path))
