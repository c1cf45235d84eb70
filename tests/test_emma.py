"""EMMA's options: energies from perceptrons, a temperature, and a threshold that can be swept."""

import math
from dataclasses import replace
from itertools import pairwise

import pytest
import torch

import zoo
from simulmt.attention.clocks import FullSentence
from simulmt.attention.memory import Memory
from simulmt.attention.schedules import MonotonicHeads
from simulmt.attention.scores import Perceptron
from simulmt.decoding.overruled import overruled
from simulmt.laws.case import Case
from simulmt.laws.of_streams import decoded_in_every_way
from simulmt.laws.small import transformer
from simulmt.parts.builders import build_mechanism

D, H = 8, 2
EMMA = build_mechanism(zoo.options("emma"))


def heads() -> MonotonicHeads:
    torch.manual_seed(3)
    made = EMMA.schedule.build(D, H, pytest.fail).double().eval()
    for parameter in made.score.parameters():
        parameter.data.normal_()
    return made


@torch.no_grad()
def test_energies_are_those_of_two_perceptrons():
    score = heads().score
    assert isinstance(score, Perceptron)
    query, states = torch.randn(2, 3, D).double(), torch.randn(2, 5, D).double()

    def through(x: torch.Tensor, perceptron: torch.nn.Sequential) -> torch.Tensor:
        for layer in (0, 2, 4, 6):
            x = (x @ perceptron[layer].weight.T + perceptron[layer].bias).clamp(min=0)
        return x.unflatten(-1, (H, -1)).transpose(1, 2)

    q, k = through(query, score.query), through(states, score.key)
    expected = q @ k.mT / math.sqrt(D / H)
    torch.testing.assert_close(score(query, score.keys(states)), expected)


def test_a_head_that_matches_nothing_stops_with_the_odds_of_its_bias():
    made = heads()
    mask = torch.ones(1, 4, dtype=torch.bool)
    states = torch.randn(1, 4, D).double()
    soft = values = torch.zeros(1, H, 4, 1)
    memory = Memory(made.keys(states), soft, values, mask, mask[:, 0])
    p = made.logits(torch.randn(1, 30, D).double(), memory).sigmoid()[..., :3]
    assert p.min().item() == pytest.approx(1 / (1 + math.exp(0.5 / 0.2)))  # .08, as in the paper
    assert p.max() > 0.9


def test_the_threshold_trades_latency_and_streams_stay_batches():
    delays, (source, mask) = [], zoo.sentences(4, 9)
    for threshold in (0.02, 0.5, 0.98):
        made = Case(EMMA.turned({"threshold": threshold}), transformer).model()
        made.length_limit = zoo.short_limit
        found = decoded_in_every_way(made, source, mask)
        delays.append([hypothesis.delays[:1] for hypothesis, _ in found])  # of the same prefix
    for earlier, later in pairwise(delays):
        both = zip(earlier, later, strict=True)
        assert all(one <= other for one, other in both if one and other)
    assert delays[0] != delays[-1]


@pytest.mark.parametrize(
    ("name", "kind"), [("emma", "transformer"), ("mma_il", "rnmt_plus"), ("milk", "luong")]
)
@torch.no_grad()
def test_an_overruled_model_is_an_offline_one_that_says_when_its_heads_would_stop(name, kind):
    made = zoo.model(zoo.MECHANISMS[name], 1, kind)
    offline = replace(made.mechanism, schedule=FullSentence())
    soft = Case(offline, zoo.SIZES[kind]).model()
    soft.load_state_dict(made.state_dict(), strict=False)
    queries = dict[MonotonicHeads, torch.Tensor]()
    for heads in (part for part in made.modules() if isinstance(part, MonotonicHeads)):
        watch = heads.score.register_forward_pre_hook
        watch(lambda _, given, heads=heads: queries.__setitem__(heads, given[0]))
    source = torch.tensor([[5, 6, 7, 8]])
    heard = soft.encode_next(source, None)[0]._replace(finished=torch.tensor([True]))
    state, other = overruled(made).start(heard), soft.start(heard)
    for token in (made.vocabulary.bos, 9, 10):
        step = overruled(made).step(torch.tensor([token]), state)
        told = soft.step(torch.tensor([token]), other)
        torch.testing.assert_close(step.logits, told.logits, rtol=0, atol=0)
        newest = [
            heads.score(query, heads.keys(heard.states))[..., -1] + heads.energy_bias[..., 0]
            for heads, query in list(queries.items())
        ]
        p = torch.cat(newest, 1) / made.mechanism.schedule.temperature
        least = p.sigmoid().min().item()
        assert step.confidence.sigmoid().item() == pytest.approx(least)
        state, other = step.state, told.state
