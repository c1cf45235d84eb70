"""What the steps of a training draw, divide and clip."""

from __future__ import annotations

from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import pytest
import torch

import zoo
from simulmt.attention import Moment
from simulmt.data.encoded import EncodedSplit
from simulmt.objective.batch import Batch
from simulmt.training.finite import FiniteUpdates
from simulmt.training.module import Frozen, TranslationModule, sentence_draws

BATCH = EncodedSplit.of([[5, 6], [7]], [[8], [9]], zoo.SPECIAL).batch([0, 1])


def a_step(objective: Any, seed: int = 1, rank: int = 0, batch: int = 0) -> torch.Tensor:
    """The result of a training step on a batch, with two batches an update."""
    loop = SimpleNamespace(epoch_loop=SimpleNamespace(total_batch_idx=batch))
    module = SimpleNamespace(
        seed=seed,
        global_rank=rank,
        global_step=batch // 2,
        trainer=SimpleNamespace(fit_loop=loop, accumulate_grad_batches=2),
        plan=SimpleNamespace(max_updates=9),
        model=None,
        objective=objective,
        _training=nullcontext,
        _tokens=torch.tensor(0),
        _loss=torch.zeros(()),
        _log=lambda _: None,
    )
    return TranslationModule.training_step(module, BATCH, batch)  # type: ignore[arg-type]


def drawn(*step: int) -> tuple[float, ...]:
    """What the forward pass of a batch draws."""
    found: list[float] = []

    def objective(*_: object) -> SimpleNamespace:
        found.extend(torch.rand(3).tolist())
        return SimpleNamespace(total=torch.ones(()), tokens=torch.tensor(4))

    a_step(objective, *step)
    return tuple(found)


def test_every_batch_of_every_process_draws_its_own_numbers():
    chosen = [(seed, rank, batch) for seed in (1, 2) for rank in (0, 1) for batch in range(3)]
    streams = [drawn(*one) for one in chosen]
    assert len({*streams}) == len(streams)
    assert drawn(*chosen[-1]) == streams[-1], "a resumed run draws the same"


def test_an_objective_knows_the_moment_and_lightning_divides_by_the_batches_of_an_update():
    def objective(_: object, batch: Batch, moment: Moment) -> SimpleNamespace:
        assert (moment.update, moment.updates) == (3, 9)
        assert moment.draw is not None
        assert moment.draw.equal(sentence_draws(5, 3, batch.index))
        assert moment.lengths is not None
        assert moment.lengths.tolist() == [2, 2]
        return SimpleNamespace(total=torch.tensor(7.0), tokens=torch.tensor(4))

    assert a_step(objective, 5, 0, 7) == 14


@pytest.mark.parametrize(("clip", "norm"), [(0, 5.0), (6.0, 5.0), (2.0, 2.0)])
@pytest.mark.parametrize("ranks", [1, 2])
def test_what_is_clipped_is_the_gradient_of_the_mean_over_tokens(clip, norm, ranks):
    weight = torch.nn.Parameter(torch.zeros(2))
    weight.grad = torch.tensor([30.0, 40.0]) / ranks  # DDP's mean over the ranks
    strategy = SimpleNamespace(reduce=lambda sums, reduce_op: sums)
    module = SimpleNamespace(
        global_step=0,
        frozen=Frozen(),
        parameters=lambda: [weight],
        trainer=SimpleNamespace(strategy=strategy, world_size=ranks),
        plan=SimpleNamespace(clip=clip),
        _tokens=torch.tensor(10),
        _loss=torch.tensor(25.0),
        _finite=FiniteUpdates(0),
        _since=torch.zeros(2),
    )
    TranslationModule.configure_gradient_clipping(module, SimpleNamespace())  # type: ignore[arg-type]
    torch.testing.assert_close(weight.grad, torch.tensor([0.6, 0.8]) * norm, rtol=1e-5, atol=0)
    assert module._tokens == module._loss == 0, "the next update counts its own"
