"""Heads: their noise, ties and states, and what windows, scores and weights make of them."""

import pytest
import torch

import zoo
from simulmt.attention import TRAINED, Source
from simulmt.attention.plan import logarithm, reweighted
from simulmt.parts.builders import build_mechanism

NEAR = {"rtol": 0, "atol": 1e-12}  # float64: rounding only


def example(options, lengths=(7, 7), ends=None, heads=4):
    """An attention of width 16 in float64, its memory of random states, and random queries."""
    torch.manual_seed(0)
    layer = build_mechanism(options).attention(16, heads).double()
    S = max(lengths)
    mask = torch.arange(S) < torch.tensor(lengths)[:, None]
    states = torch.randn(len(lengths), S, 16).double()
    source = Source(torch.full(mask.shape, 5), states, mask, torch.ones_like(mask[:, 0]), ends=ends)
    return layer, layer.memory(source), torch.randn(len(lengths), 4, 16).double()


@pytest.mark.parametrize("name", ["mma_il", "emma"])
def test_every_energy_has_noise_of_its_own(name):
    """No head, step or place shares a draw, and a temperature does not change their size."""
    layer, memory, query = example(zoo.options(name) | {"noise": 2.0})
    drawn = layer.schedule.logits(query, memory) - layer.schedule.energies(query, memory)
    drawn = drawn[..., :-1].flatten()  # EOS is certain
    assert drawn.sort().values.diff().min() > 1e-9
    assert drawn.std().item() == pytest.approx(2, abs=0.5)  # 192 draws: five standard errors


def test_an_energy_of_zero_reads_on():
    """`e > 0` stops; at evens a head reads on to EOS."""
    layer, memory, query = example(zoo.options("milk") | {"energy_bias": 0.0}, heads=1)
    torch.nn.init.zeros_(layer.eval().schedule.score.query.weight)
    stand = layer.schedule.step(query[:, :1], memory, layer.schedule.initial_position(memory))
    assert stand.position.tolist() == [[7], [7]]


def test_the_readiness_is_that_of_the_newest_token_whatever_the_padding():
    layer, memory, query = example(zoo.options("mma_il"), lengths=(7, 4, 1))
    found = layer.schedule.readiness(query[:, :1], memory)
    energies = layer.schedule.energies(query[:, :1], memory)[:, :, 0]  # (B, H, S)
    expected = [energies[row, :, length - 1].min() for row, length in enumerate((7, 4, 1))]
    torch.testing.assert_close(found, torch.stack(expected), **NEAR)


WORDS = torch.tensor([[1, 0, 0, 1, 0, 1, 1], [0, 1, 0, 1, 0, 0, 0], [1, 0, 0, 0, 0, 0, 0]]).bool()


@pytest.mark.parametrize("ends", [None, WORDS], ids=["subwords", "words"])
def test_a_window_has_read_what_lies_ahead_of_the_head(ends):
    """The alignment that a latency is computed from counts the D = 2 positions, and whole words."""
    lengths = (7, 4, 1)
    layer, memory, query = example(zoo.MECHANISMS["milk-window"], lengths, ends)
    schedule = layer.eval().schedule
    plan = schedule.plan(query, memory, schedule.initial_state(memory), TRAINED)
    stood, _ = layer.expect(query, memory, plan)
    expected = torch.zeros_like(stood)
    for row, length in enumerate(lengths):
        for place in range(1, length + 1):
            read = min(place + 2, length)
            while ends is not None and not ends[row, read - 1]:
                read += 1
            expected[row, ..., read - 1] += stood[row, ..., place - 1]
    found = layer(query, memory, None, None, TRAINED).alpha
    torch.testing.assert_close(found, expected, **NEAR)


def test_step_by_step_gradients_are_those_of_one_call():
    """A step's gradient goes back through where the heads stood before it."""
    layer, memory, query = example(zoo.options("mma_il"))
    query.requires_grad_()
    whole, state, rows = layer.eval()(query, memory, None, None, TRAINED).context, None, []
    for one in query.unbind(1):
        row = layer(one[:, None], memory, state, None, TRAINED)
        state = row.state
        rows.append(row.context)
    weight = torch.randn_like(whole)
    one, other = (
        torch.autograd.grad((x * weight).sum(), query)[0] for x in (whole, torch.cat(rows, 1))
    )
    torch.testing.assert_close(one, other, **NEAR)


def test_a_shift_by_the_logarithm_of_a_weight_is_the_weight():
    """Down to the least numbers; a weight of 0 leaves nothing."""
    energy = torch.randn(2, 3, 4, 5).double()
    weight = torch.logspace(0, -200, 5).double().expand(2, 1, 4, 5)
    weight = torch.cat([weight[..., :4], torch.zeros_like(weight[..., :1])], -1)
    moved = (energy + logarithm(weight)).softmax(-1)
    weighted = reweighted(energy.softmax(-1), weight)
    torch.testing.assert_close(moved, weighted, rtol=1e-9, atol=1e-300)
