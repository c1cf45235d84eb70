"""Multi-path wait-k: in training each sentence is a sentence of wait-k, with a k of its own."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

import zoo
from simulmt.attention import Source
from simulmt.attention.clocks import MultiPath, WaitK
from simulmt.attention.moment import TRAINED, Moment
from simulmt.attention.plan import Stops

MULTI = zoo.options("multi_path")
NEAR = {"rtol": 0, "atol": 1e-9}  # float64, far above its rounding


def source(lengths: list[int]) -> Source:
    mask = torch.arange(max(lengths)) < torch.tensor(lengths)[:, None]
    zeros = torch.zeros(*mask.shape, 4)
    return Source(mask.long(), zeros, mask, torch.ones(len(lengths), dtype=torch.bool))


def planned(clock: MultiPath | WaitK, given: Source, moment: Moment) -> Tensor:
    alignment = clock.plan(given, torch.zeros(len(given.mask), 7).long(), moment).alignment
    assert isinstance(alignment, Stops)
    return alignment.position


@pytest.mark.parametrize(("k_min", "k_max"), [(1, 9), (4, 4), (12, 20)])
@pytest.mark.parametrize("rate", [1.0, 1.1])
def test_k_is_uniform_over_the_range_clipped_at_the_sentence(
    k_min: int, k_max: int, rate: float
) -> None:
    lengths = [2, 5, 30] * 2520
    draw = (torch.arange(len(lengths)) // 3 / 2520 + 1e-4).float()  # each sentence gets all draws
    given = source(lengths)
    stops = planned(MultiPath(k_min, k_max, 1, rate), given, Moment(draw=draw))
    for S in set(lengths):
        rows = torch.tensor(lengths) == S
        possible = range(min(k_min, S), min(k_max, S) + 1)
        ks, counts = stops[rows, 0, 0].unique(return_counts=True)
        assert ks.tolist() == [*possible]
        assert counts.tolist() == [2520 / len(possible)] * len(
            possible
        )  # 2520 is a multiple of 1 to 10
        for k in possible:
            (row,) = planned(WaitK(k, rate), source([S]), TRAINED)
            assert (stops[rows & (stops[:, 0, 0] == k)] == row).all()


@pytest.mark.parametrize("kind", zoo.kinds(MULTI))
def test_a_training_step_is_that_of_wait_k_for_each_sentence(kind: str) -> None:
    tokens, mask = zoo.sentences(6, 9)
    target = torch.randint(4, zoo.VOCABULARY, (6, 7), generator=torch.Generator().manual_seed(3))
    multi = zoo.model(MULTI | {"k_min": 2, "k_max": 4}, kind=kind)
    both = multi(tokens, mask, target, Moment(draw=torch.tensor([0.1, 0.5, 0.9] * 2))).logits
    for number, k in enumerate([2, 3, 4] * 2):
        single = zoo.model(zoo.options("wait_k") | {"k": k}, kind=kind)
        single.load_state_dict(multi.state_dict())
        alone = single(tokens, mask, target).logits
        torch.testing.assert_close(both[number], alone[number], **NEAR)


@pytest.mark.parametrize("kind", zoo.kinds(MULTI))
def test_a_trained_model_waits_for_the_k_of_its_dial(kind: str) -> None:
    tokens, mask = zoo.sentences(4, 9)
    target = torch.randint(4, zoo.VOCABULARY, (4, 7), generator=torch.Generator().manual_seed(3))
    for k in (1, 3, 12):
        multi = zoo.model(MULTI | {"k": k}, kind=kind)
        single = zoo.model(zoo.options("wait_k") | {"k": k}, kind=kind)
        single.load_state_dict(multi.state_dict())
        torch.testing.assert_close(
            multi(tokens, mask, target).logits, single(tokens, mask, target).logits, **NEAR
        )
        for mine, other in zip(
            *(zoo.forced_steps(made, tokens, mask, target)[:2] for made in (multi, single)),
            strict=True,
        ):
            torch.testing.assert_close(mine, other, **NEAR)
