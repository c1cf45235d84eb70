"""What the seam carries to a policy and back: dials, the moment of training, losses, weights."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

import zoo
from simulmt.attention import Moment
from simulmt.attention.plan import reweighted
from simulmt.training.module import sentence_draws

NEAR = {"rtol": 0, "atol": 1e-9}  # float64: rounding only
everywhere = pytest.mark.parametrize("kind", zoo.SMALL)


def batch() -> tuple[Tensor, Tensor, Tensor]:
    """Source, its mask and a target."""
    random = torch.Generator().manual_seed(3)
    return *zoo.sentences(6, 9), torch.randint(4, zoo.VOCABULARY, (6, 7), generator=random)


@everywhere
def test_a_dial_is_turned_without_training(kind: str) -> None:
    models = [zoo.model(zoo.options("itst") | {"delta": d}, kind=kind) for d in (0.1, 0.5, 1.0)]
    reads = [zoo.forced_steps(made, *batch())[1].sum() for made in models]
    assert reads == sorted(reads)
    assert reads[0] < reads[-1]


@everywhere
@pytest.mark.parametrize(
    ("name", "first", "second"),
    [
        ("itst", Moment(1, 10, torch.zeros(6)), Moment(9, 10, torch.zeros(6))),
        ("multi_path", Moment(draw=torch.zeros(6)), Moment(draw=torch.full((6,), 0.9))),
    ],
)
def test_a_curriculum_and_a_draw_reach_the_policy(name, first, second, kind: str) -> None:
    made = zoo.model(zoo.options(name), kind=kind)
    assert (made(*batch(), first).logits != made(*batch(), second).logits).any()


@everywhere
@pytest.mark.parametrize("name", ["itst", "wait_info"])  # a schedule's and a clock's
def test_losses_are_returned_for_each_sentence_once(name: str, kind: str) -> None:
    moment = Moment(9, 10, torch.linspace(0, 0.9, 6), torch.full((6,), 7))
    losses = zoo.model(zoo.options(name), kind=kind)(*batch(), moment).losses
    assert losses
    assert all(loss.shape == (6,) and loss.requires_grad for loss in losses.values())


def test_a_weight_of_one_changes_nothing() -> None:
    beta = torch.rand(2, 3, 4, 5).double()
    assert reweighted(beta, None) is beta
    torch.testing.assert_close(reweighted(beta, torch.full_like(beta, 0.3)), beta, **NEAR)
    weight = torch.rand(2, 1, 4, 5).double()
    weighted = reweighted(beta, weight)
    torch.testing.assert_close(weighted.sum(-1), beta.sum(-1), **NEAR)
    assert (reweighted(beta, torch.zeros_like(weight)) == beta).all(), "nothing to share out"


def test_draws_depend_on_the_sentence_alone() -> None:
    index = torch.arange(1000)
    draws = sentence_draws(seed=3, update=7, index=index)
    assert ((draws >= 0) & (draws < 1)).all()
    # 1000 uniform draws: the standard error of their mean is 0.009
    assert abs(draws.mean() - 0.5) < 0.04
    order = torch.randperm(1000)
    assert torch.equal(sentence_draws(3, 7, order), draws[order])
    assert (sentence_draws(3, 8, index) != draws).all()
    assert (sentence_draws(4, 7, index) != draws).all()
