"""Models and windows against references written down from the formulas, a step at a time."""

import math

import pytest
import torch
from torch import Tensor

import zoo
from simulmt.attention import Lookback, Moment
from simulmt.attention.schedules.itst import Information
from simulmt.attention.scores import NormalisedAdditive
from simulmt.attention.scores.luong import Location
from simulmt.attention.spans import Look, Window, weights
from simulmt.attention.spans.luong import Guess
from simulmt.attention.spans.monotonic import Chunk, Stopped
from simulmt.laws import small
from simulmt.objective.marginal_likelihood import log_translate

NEAR = {"rtol": 0, "atol": 1e-10}  # float64: rounding only
S, T, DIM = 6, 5, small.DIM


def additive(score, s: Tensor, h: Tensor) -> Tensor:
    """`softmax_j v^T tanh(W_s s + W_h h_j + b)`, one head."""
    hidden = score.hidden
    drive = hidden.query(s) + h @ hidden.key.weight.T
    return torch.softmax(torch.tanh(drive) @ score.v[0], 0)


def example(kind: str, **options) -> tuple:
    made = zoo.model(zoo.options("soft"), kind=kind, **options)
    source, mask = zoo.sentences(1, S)
    return made, source, mask, torch.randint(4, zoo.VOCABULARY, (1, T))


def test_rnmt_plus_is_its_equations():
    """Step i: layer 1 of [y_i-1; c_i-1] asks for c_i; the layers above and the softmax get c_i."""
    made, source, mask, target = example("rnmt_plus")
    h = made.encode(source, mask).states[0]
    states = [layer.initial_state(h[:1]) for layer in made.decoder]
    c = torch.zeros(1, DIM, dtype=torch.float64)
    logits = []
    for token in target[0]:
        y = made.target_embedding(token)[None]
        states[0] = made.decoder[0].step(torch.cat([y, c], -1), states[0])
        c = (additive(made.source_attention.score, states[0].hidden[0], h) @ h)[None]
        x = states[0].hidden
        states[1] = made.decoder[1].step(torch.cat([x, c], -1), states[1])
        x = states[1].hidden
        states[2] = made.decoder[2].step(torch.cat([x, c], -1), states[2])
        x = x + states[2].hidden  # residual from the third layer on
        logits.append(made.output(torch.cat([x, c], -1)))
    torch.testing.assert_close(made(source, mask, target).logits[0], torch.cat(logits), **NEAR)


@pytest.mark.parametrize("feeding", [True, False])
def test_luong_is_its_equations(feeding):
    """`a_i = tanh(W_c [c_i; s_i])` feeds the softmax and, with input feeding, the next step."""
    made, source, mask, target = example("luong", input_feeding=feeding)
    h = made.encoder(made.source_embedding(source))[0][0]
    a, layers, logits = torch.zeros(1, 1, DIM, dtype=torch.float64), None, []
    for token in target[0]:
        y = made.target_embedding(token)[None, None]
        s, layers = made.decoder(torch.cat([y, a], -1) if feeding else y, layers)
        c = additive(made.source_attention.score, s[0, 0], h) @ h
        a = torch.tanh(made.combine.weight @ torch.cat([c, s[0, 0]]))[None, None]
        logits.append(made.output(a)[0, 0])
    torch.testing.assert_close(made(source, mask, target).logits[0], torch.stack(logits), **NEAR)


def test_a_gaussian_window_has_half_its_reach_as_standard_deviation():
    D, p, length = 4, 6, 12
    look = Window(window=D, gaussian=True).look(torch.zeros(1, 1, 1), torch.tensor([[[p]]]), length)
    for j in range(1, length + 1):
        assert bool(look.visible[0, 0, 0, j - 1]) == (abs(j - p) <= D)
        expected = math.exp(-((j - p) ** 2) / (2 * (D / 2) ** 2))
        assert look.factor[0, 0, 0, j - 1].item() == pytest.approx(expected, rel=1e-6)


def test_a_predicted_window_is_where_the_formula_says():
    torch.manual_seed(0)
    span = Guess(dim=8, heads=2, window=2).double()
    query = torch.randn(1, 3, 8, dtype=torch.float64)
    look = span.look(query, torch.full((1, 2, 3), 9), 9)
    for head in range(2):
        for i in range(3):
            s = query[0, i]
            p = 9 * torch.sigmoid(span.share.weight[head] @ torch.tanh(span.hidden.weight @ s))
            for j in range(1, 10):
                assert bool(look.visible[0, head, i, j - 1]) == (abs(j - p) <= 2)
                factor = torch.exp(-((j - p) ** 2) / (2 * (2 / 2) ** 2))
                torch.testing.assert_close(look.factor[0, head, i, j - 1], factor, **NEAR)


def test_windows_are_exact_under_autocast():
    """Far out in a long sentence bfloat16 would be off by several positions."""
    torch.manual_seed(0)
    window, guess = Window(window=5, gaussian=True), Guess(dim=8, heads=1, window=5)
    query, position = torch.randn(1, 4, 8), torch.full((1, 1, 4), 299)
    exact = window.look(query, position, 300)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        look, guessed = (
            window.look(query.bfloat16(), position, 300),
            guess.look(query, position, 300),
        )
        share = guess.share(torch.tanh(guess.hidden(query))).transpose(1, 2)  # itself in bfloat16
    assert torch.equal(look.visible, exact.visible)
    assert torch.equal(look.factor, exact.factor)
    away = torch.arange(1, 301) - 299 * torch.sigmoid(share.float())[..., None]
    assert torch.equal(guessed.visible, (away.abs() <= 5) & (torch.arange(1, 301) <= 299))


def test_a_window_beyond_the_places_that_location_knows_sums_to_one():
    torch.manual_seed(0)
    length = Location.PLACES + 44
    score, span = Location(8, 1), Window(window=2, gaussian=False)
    query = torch.randn(1, 1, 8)
    look: Look = span.look(query, torch.tensor([[[length - 10]]]), length)
    energy = score(query, score.keys(torch.zeros(1, length, 8)))
    found = weights(energy, look, torch.ones(1, length, dtype=torch.bool))
    torch.testing.assert_close(found.sum(-1), torch.ones(1, 1, 1))


@pytest.mark.parametrize(("name", "kind"), zoo.pairs(["soft", "mma_il", "mocha", "luong_local_p"]))
def test_bfloat16_training_has_finite_gradients(kind, name):
    made = zoo.model(zoo.options(name), kind=kind).float().train()
    source, mask = zoo.sentences(4, 9)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        out = made(source, mask, source)
        logits = out.logits
    logits.float().logsumexp(-1).sum().backward()
    assert all(p.grad.isfinite().all() for p in made.parameters() if p.grad is not None)
    assert all(alpha.dtype == torch.float32 for alpha in out.alphas)


def test_information_is_float32_under_autocast():
    """In bfloat16 the sum of 257 ones is 256."""
    source, mask = zoo.sentences(2, 9)
    target = torch.randint(4, zoo.VOCABULARY, (2, 5))
    clocked, scheduled = (zoo.model(zoo.options(name)).float() for name in ("wait_info", "itst"))
    layer = next(part for part in scheduled.modules() if isinstance(part, Information))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        weight = clocked.clock.plan(clocked.encode(source, mask), target, Moment()).weight
        encoded = scheduled.encode(source, mask)
        memory = scheduled.decoder[0].source_attention.memory(encoded)
        information = layer.information(encoded.states, memory)
    assert weight.dtype == information.dtype == torch.float32


def test_the_odds_of_states_are_computed_in_float32():
    assert log_translate(torch.randn(1, 4, 3).bfloat16()).dtype == torch.float32


SPANS = [Stopped(), Chunk(2), Lookback(), Window(2, gaussian=False), Window(2, gaussian=True)]


@pytest.mark.parametrize("span", [*SPANS, Guess(8, 1, 2)], ids=lambda span: type(span).__name__)
def test_a_head_that_ran_off_the_end_sees_nothing(span):
    assert not span.look(torch.zeros(1, 1, 8), torch.tensor([[[0]]]), 6).visible.any()


def test_each_head_has_a_direction_of_length_g():
    torch.manual_seed(0)
    score = NormalisedAdditive(8, 2)
    score.v.data[1] *= 5
    length = torch.full((2,), (2 / 8) ** 0.5)  # the root of 1 / d, with d the width of a head
    torch.testing.assert_close(score.direction.norm(dim=-1), length)
    score.gain.data[0] = 3.0
    torch.testing.assert_close(score.direction[0], 3 * score.v[0] / score.v[0].norm())
