"""ITST against a slow reading of the paper: stops, weights, losses and the curriculum."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

import zoo
from simulmt.attention import Moment
from simulmt.attention.memory import Memory
from simulmt.attention.schedules.itst import Information, Itst
from simulmt.attention.scores import ScaledDotProduct
from simulmt.errors import UserError

NEAR = {"rtol": 0, "atol": 1e-9}  # float64: rounding only
OPTIONS = Itst(delta=0.6, delta_min=0.5, delta_decay=0.3, full=0.25)


def a_layer(**changes: float) -> Information:
    torch.manual_seed(3)
    layer = Information(Itst(**{**vars(OPTIONS), **changes}), ScaledDotProduct(16, 1)).double()
    layer.score.query.bias.data.normal_(std=3)
    return layer


def a_memory(layer: Information, length: int, rows: int = 1, read: int | None = None) -> Memory:
    states = torch.randn(rows, length, 16, generator=torch.Generator().manual_seed(5)).double()
    mask = torch.arange(length)[None] < torch.full((rows, 1), read or length)
    keys = layer.keys(states)
    return Memory(keys, keys, keys, mask, torch.ones(rows, dtype=torch.bool))


def literal(T: Tensor, delta: float) -> list[int]:
    """`m_i = 1 + #{j : sum_(l<=j) T_il < delta}`, at least 2, never falling, at most S."""
    stops: list[int] = []
    for row in T.tolist():
        short = sum(sum(row[: j + 1]) < delta for j in range(len(row)))
        stops.append(min(max([2, 1 + short, *stops]), len(row)))
    return stops


@pytest.mark.parametrize("delta", [0.05, 0.3, 0.6, 1.0])
def test_stops_are_those_of_the_paper(delta: float) -> None:
    layer = a_layer(delta=delta)
    memory, query = a_memory(layer, 9), torch.randn(1, 6, 16).double()
    T = layer.information(query, memory)
    plan = layer.plan(query, memory, layer.initial_state(memory), Moment())
    assert plan.alignment.position[0, 0].tolist() == literal(T[0, 0], delta)
    assert torch.equal(plan.weight, T)
    state = layer.initial_position(memory)
    for i, stop in enumerate(literal(T[0, 0], delta)):
        stand = layer.step(query[:, i : i + 1], memory, state)
        assert stand.position.item() == stop
        state = stand.state


def test_a_step_reads_until_the_information_is_there() -> None:
    layer, query = a_layer(), torch.randn(1, 1, 16).double()
    whole = a_memory(layer, 9)
    (stop,) = literal(layer.information(query, whole)[0, 0], 0.6)
    assert 2 < stop < 9, "some of the source should be enough"
    for read in range(1, 10):
        memory = a_memory(layer, 9, read=read)._replace(finished=torch.tensor([read == 9]))
        stand = layer.step(query, memory, layer.initial_position(memory))
        assert stand.wants_to_read.item() == (read < stop)


def losses_of(T: Tensor) -> tuple[float, float]:
    """The losses of one layer and one sentence, term by term; i and j count from 1."""
    (target, source), lag, apart = T.shape, 0.0, 0.0
    for i in range(1, target + 1):
        row = T[i - 1].tolist()
        for j in range(1, source + 1):
            far = max(abs(j - i * source / target) - 1, 0)
            lag += row[j - 1] / sum(row) * far / (source * target)
            apart += (row[j - 1] - row[j - 1] / sum(row)) ** 2
    return lag, math.sqrt(apart)


def test_losses_are_those_of_the_paper_whatever_the_padding() -> None:
    layer = a_layer()
    sizes, query = ((9, 6), (5, 4), (2, 1)), torch.randn(3, 6, 16).double()
    states = torch.randn(3, 9, 16).double()
    mask = torch.arange(9)[None] < torch.tensor([[source] for source, _ in sizes])
    keys = layer.keys(states)
    memory = Memory(keys, keys, keys, mask, torch.ones(3, dtype=torch.bool))
    moment = Moment(lengths=torch.tensor([target for _, target in sizes]))
    plan = layer.plan(query, memory, layer.initial_state(memory), moment)
    T = layer.information(query, memory)[:, 0]
    for row, (source, target) in enumerate(sizes):
        lag, norm = losses_of(T[row, :target, :source])
        assert plan.losses["information_lag"][row].item() == pytest.approx(lag, abs=1e-12)
        assert plan.losses["information_norm"][row].item() == pytest.approx(norm, abs=1e-12)
    sum(loss.sum() for loss in plan.losses.values()).backward()
    assert all(parameter.grad.isfinite().all() for parameter in layer.parameters())


def test_step_by_step_the_losses_add_up_to_the_same() -> None:
    """As recurrent decoders plan; the norm of all steps is no sum of norms."""
    layer, query = a_layer(), torch.randn(2, 6, 16).double()
    memory, moment = a_memory(layer, 9, rows=2), Moment(lengths=torch.tensor([6, 4]))
    whole = layer.plan(query, memory, layer.initial_state(memory), moment)
    state, total = layer.initial_state(memory), dict.fromkeys(whole.losses, 0.0)
    for i in range(6):
        plan = layer.plan(query[:, i : i + 1], memory, state, moment)
        assert torch.equal(plan.alignment.position[..., 0], whole.alignment.position[..., i])
        total = {name: total[name] + loss for name, loss in plan.losses.items()}
        state = plan.state
    for name, loss in whole.losses.items():
        torch.testing.assert_close(total[name], loss, **NEAR)


def test_delta_falls_in_training_after_a_time_with_the_whole_source() -> None:
    draw = torch.zeros(1)
    shares = [OPTIONS.threshold(Moment(update, 100, draw)) for update in range(101)]
    assert all(math.isinf(delta) for delta in shares[:25])
    assert shares[25] == pytest.approx(0.5 + 0.5 * math.exp(-0.25 / 0.3))
    assert shares[25:] == sorted(shares[25:], reverse=True)
    assert OPTIONS.threshold(Moment(10, 100)) == 0.6, "the dial counts outside training"


@pytest.mark.parametrize("kind", zoo.SMALL)
def test_a_larger_delta_waits_longer(kind: str) -> None:
    source, mask = zoo.sentences(6, 9)
    target = torch.randint(4, zoo.VOCABULARY, (6, 7))
    reads = [
        zoo.forced_steps(
            zoo.model(zoo.options("itst") | {"delta": delta}, kind=kind), source, mask, target
        )[1].sum()
        for delta in (0.1, 0.6, 1.0)
    ]
    assert reads == sorted(reads)
    assert reads[0] < reads[-1]


@pytest.mark.parametrize("delta", [0.0, 1.5])
def test_a_delta_out_of_range_is_refused(delta: float) -> None:
    with pytest.raises(UserError, match=r"delta is .* above 0 and at most 1"):
        a_layer(delta=delta)
