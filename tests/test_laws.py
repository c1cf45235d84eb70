"""Every mechanism of `conf/mechanism` obeys the laws of training on every model.

`test_streaming_laws.py` has those of streams.
"""

from collections.abc import Iterator

import pytest
import torch
from _pytest.mark import ParameterSet

import zoo
from simulmt.attention import Source
from simulmt.laws import LAWS, VacuousError, check
from simulmt.laws.of_attention import known_stops_are_certain
from simulmt.laws.of_training import (
    every_parameter_learns,
    padding_changes_nothing,
    training_is_hard_decoding,
)
from simulmt.parts.builders import build_mechanism
from zoo import MECHANISMS

OF_TRAINING = [law for law in LAWS if not law.__module__.endswith("of_streams")]


def pairs() -> Iterator[ParameterSet]:
    """Each mechanism with each model.

    The fast suite takes a mechanism of `conf` with every model of `SMALL`, and everything else with
    one kind of model, which changes from one mechanism to the next.
    """
    for number, (name, chosen) in enumerate(MECHANISMS.items()):
        kinds = zoo.kinds(chosen)
        for kind in kinds:
            published = "-" not in name and kind in zoo.SMALL
            fast = published or kind == kinds[number % len(kinds)]
            yield pytest.param(name, kind, marks=[] if fast else [pytest.mark.slow])


@pytest.mark.parametrize("law", OF_TRAINING, ids=lambda law: law.__name__)
@pytest.mark.parametrize(("name", "kind"), [*pairs()])
def test_every_mechanism_obeys(law, name, kind):
    case = zoo.case(MECHANISMS[name], kind)
    if (name, law) == (zoo.READS_ALL, training_is_hard_decoding):
        with pytest.raises(VacuousError):
            check(law, case, kind)
    else:
        check(law, case, kind)


@pytest.mark.parametrize("kind", zoo.kinds(zoo.options("mocha")))
def test_a_chunk_of_one_state_has_no_score_to_learn(kind):
    every_parameter_learns(zoo.case(zoo.options("mocha") | {"chunk": 1}, kind))


SPAN_OPTIONS = [
    {"span": "lookback", "score": "usual"},
    {"span": "stopped"},
    {"span": "chunk", "chunk": 2, "score": "usual"},
    {"span": "window", "window": 2, "gaussian": False, "score": "dot"},
    {"span": "window", "window": 2, "gaussian": True, "score": "concat"},
    {"span": "predicted_window", "window": 2, "score": "location"},
]


@pytest.mark.parametrize("span", SPAN_OPTIONS)
@pytest.mark.parametrize(("name", "kind"), [("wait_k", "transformer"), ("soft", "rnmt_plus")])
def test_fixed_schedules_collapse_to_a_masked_softmax(name, span, kind):
    chosen = {key: value for key, value in MECHANISMS[name].items() if key != "score"}
    known_stops_are_certain(zoo.case(chosen | span, kind))


@pytest.mark.parametrize("kind", ["transformer", "rnmt_plus"])
def test_padding_is_hidden_from_a_bidirectional_encoder(kind):
    padding_changes_nothing(zoo.case(zoo.options("soft"), kind, encoder="bidirectional"))


def test_noise_is_a_standard_deviation_and_training_only():
    torch.manual_seed(0)
    layer = build_mechanism(zoo.options("monotonic") | {"noise": 4.0}).attention(64, 1).eval()
    states, mask = torch.randn(1, 7, 64), torch.ones(1, 7, dtype=torch.bool)
    memory = layer.memory(Source(torch.full((1, 7), 5), states, mask, mask[:, 0]))
    queries = states[:, :1]
    still = layer.schedule.logits(queries, memory)
    assert torch.equal(still, layer.schedule.logits(queries, memory))
    layer.train()
    energy = layer.schedule.energies(queries, memory)[0, 0, 0, 0]
    first = torch.stack([layer.schedule.logits(queries, memory)[0, 0, 0, 0] for _ in range(4000)])
    drawn = first - energy
    # 4000 draws: the standard error of a standard deviation of 4 is 4 / sqrt(8000) = 0.045
    assert abs(drawn.std().item() - 4.0) < 0.2
    assert abs(drawn.mean().item()) < 0.3
