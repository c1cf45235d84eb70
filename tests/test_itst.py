"""ITST against a slow reading of the paper: stops, weights, losses and the curriculum."""

import math

import pytest
import torch
from torch import Tensor

import zoo
from simulmt.attention import Moment
from simulmt.attention.memory import Memory
from simulmt.attention.schedules.itst import Information, Itst

NEAR = {"rtol": 0, "atol": 1e-12}  # float64, sums of at most some hundred terms: rounding only
OPTIONS = Itst(delta=0.6, delta_min=0.5, delta_decay=0.3, full=0.25)
DIM, HEADS = 16, 4


def a_layer(**changes: float) -> Information:
    torch.manual_seed(3)
    layer = Information(Itst(**{**vars(OPTIONS), **changes}), DIM, HEADS).double()
    layer.query.bias.data.normal_(std=3)
    layer.key.bias.data.normal_()
    return layer


def a_memory(layer: Information, length: int, rows: int = 1, read: int | None = None) -> Memory:
    states = torch.randn(rows, length, DIM, generator=torch.Generator().manual_seed(5)).double()
    mask = torch.arange(length)[None] < torch.full((rows, 1), read or length)
    keys = layer.keys(states)
    return Memory(keys, keys, keys, mask, torch.ones(rows, dtype=torch.bool))


def literal_information(layer: Information, query: Tensor, states: Tensor) -> Tensor:
    """`sigmoid(q . k / sqrt(D / H)) + 1e-4`, the dot product over all D dimensions, both biased."""
    q = query @ layer.query.weight.T + layer.query.bias
    k = states @ layer.key.weight.T + layer.key.bias
    return 1 / (1 + torch.exp(-(q @ k.T) / math.sqrt(DIM / HEADS))) + 1e-4


def literal_stops(T: list[list[float]], delta: float) -> list[int]:
    """Visible are j <= m_i + 1; `m_i = 1 + #{j : sum_(l<=j) T_il < delta}` never falls."""
    m, stops = 0, list[int]()
    for row in T:
        m = max(m, 1 + sum(sum(row[: j + 1]) < delta for j in range(len(row))))
        stops.append(min(m + 1, len(row)))
    return stops


@torch.no_grad()
def test_the_information_is_the_papers_with_the_scale_of_one_head_and_a_bias_of_the_keys():
    layer, query, states = a_layer(), torch.randn(6, DIM).double(), torch.randn(9, DIM).double()
    memory = a_memory(layer, 9)._replace(selection_keys=layer.keys(states[None]))
    T = literal_information(layer, query, states)
    torch.testing.assert_close(layer.information(query[None], memory)[0, 0], T, **NEAR)
    layer.key.bias.data += 1
    memory = memory._replace(selection_keys=layer.keys(states[None]))
    moved = layer.information(query[None], memory)[0, 0]
    assert (moved - T).abs().max() > 0.1, "the keys' bias should move the level of T"


@pytest.mark.parametrize("delta", [0.05, 0.3, 0.6, 1.0])
def test_stops_are_those_of_the_paper(delta):
    layer = a_layer(delta=delta)
    memory, query = a_memory(layer, 9), torch.randn(1, 6, DIM).double()
    T = layer.information(query, memory)
    stops = literal_stops(T[0, 0].tolist(), delta)
    plan = layer.plan(query, memory, layer.initial_state(memory), Moment())
    assert plan.alignment.position[0, 0].tolist() == stops
    assert torch.equal(plan.weight, T)
    state = layer.initial_position(memory)
    for i, stop in enumerate(stops):
        stand = layer.step(query[:, i : i + 1], memory, state)
        assert stand.position.item() == stop
        state = stand.state


def test_training_sees_what_inference_sees():
    """With the delta of its update; before, the whole source."""
    layer, query = a_layer(), torch.randn(1, 6, DIM).double()
    memory, draw = a_memory(layer, 9), torch.zeros(1)
    T = layer.information(query, memory)[0, 0].tolist()
    for update, stops in ((10, [9] * 6), (60, literal_stops(T, 0.5 + 0.5 * math.exp(-0.6 / 0.3)))):
        plan = layer.plan(query, memory, layer.initial_state(memory), Moment(update, 100, draw))
        assert plan.alignment.position[0, 0].tolist() == stops


def test_a_step_reads_until_all_but_the_newest_token_inform_enough():
    layer, query = a_layer(), torch.randn(1, 1, DIM).double()
    whole = a_memory(layer, 9)
    row = layer.information(query, whole)[0, 0, 0].tolist()
    for read in range(1, 10):
        memory = a_memory(layer, 9, read=read)._replace(finished=torch.tensor([read == 9]))
        stand = layer.step(query, memory, layer.initial_position(memory))
        assert stand.wants_to_read.item() == (sum(row[: read - 1]) < 0.6 and read < 9)
    assert sum(row[:7]) >= 0.6, "some of the source should be enough"


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


def test_losses_are_those_of_the_paper_whatever_the_padding():
    layer, query = a_layer(), torch.randn(3, 6, DIM).double()
    sizes = ((9, 6), (5, 4), (2, 1))
    keys = layer.keys(torch.randn(3, 9, DIM).double())
    mask = torch.arange(9)[None] < torch.tensor([[source] for source, _ in sizes])
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


def test_the_diagonal_ends_with_the_sentence_whatever_follows_in_a_stream():
    layer, query = a_layer(), torch.randn(1, 6, DIM).double()
    memory = a_memory(layer, 9)
    moment = Moment(lengths=torch.tensor([6]), sources=torch.tensor([3]))
    plan = layer.plan(query, memory, layer.initial_state(memory), moment)
    T = layer.information(query, memory)[0, 0].tolist()
    lag = sum(
        value / sum(row) * max(abs(j - i * 3 / 6) - 1, 0)
        for i, row in enumerate(T, 1)
        for j, value in enumerate(row, 1)
    )
    assert plan.losses["information_lag"].item() == pytest.approx(lag / (3 * 6), abs=1e-12)


def test_step_by_step_the_losses_add_up_to_the_same():
    """As recurrent decoders plan; the norm of all steps is no sum of norms."""
    layer, query = a_layer(), torch.randn(2, 6, DIM).double()
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


def test_a_models_losses_are_the_mean_over_its_layers():
    made = zoo.model(zoo.options("itst"), decoder_layers=3)
    source, mask = zoo.sentences(2, 7)
    target = torch.randint(4, zoo.VOCABULARY, (2, 5))
    found, planned = made.decode(made.encode(source, mask), target).losses, []
    for layer in made.modules():
        if isinstance(layer, Information):
            plan = layer.plan
            layer.plan = lambda *a, plan=plan: planned.append(plan(*a)) or planned[-1]
    made.decode(made.encode(source, mask), target)
    assert len(planned) == 3
    for name, loss in found.items():
        mean = sum(plan.losses[name] for plan in planned) / 3
        torch.testing.assert_close(loss, mean, **NEAR)


def test_delta_falls_in_training_after_a_time_with_the_whole_source():
    draw = torch.zeros(1)
    shares = [OPTIONS.threshold(Moment(update, 100, draw)) for update in range(101)]
    assert all(math.isinf(delta) for delta in shares[:25])
    assert shares[25] == pytest.approx(0.5 + 0.5 * math.exp(-0.25 / 0.3))
    assert shares[25:] == sorted(shares[25:], reverse=True)
    assert OPTIONS.threshold(Moment(10, 100)) == 0.6, "the dial counts outside training"


@pytest.mark.parametrize("kind", zoo.SMALL)
def test_a_larger_delta_waits_longer(kind):
    source, mask = zoo.sentences(6, 9)
    target = torch.randint(4, zoo.VOCABULARY, (6, 7))
    options = [zoo.options("itst") | {"delta": delta} for delta in (0.1, 0.6, 1.0)]
    models = [zoo.model(chosen, kind=kind) for chosen in options]
    reads = [zoo.forced_steps(made, source, mask, target)[1].sum() for made in models]
    assert reads == sorted(reads)
    assert reads[0] < reads[-1]
