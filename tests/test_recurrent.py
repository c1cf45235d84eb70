"""The recurrent models: their sizes, their options, what is refused."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import yaml
from pydantic import ValidationError
from torch import Tensor

import zoo
from simulmt.attention import Attention
from simulmt.errors import UserError
from simulmt.models.dropout import Dropout
from simulmt.models.lstm import LSTM
from simulmt.models.model import Model
from simulmt.models.rnmt_plus import RnmtPlusEncoder
from simulmt.models.vocabulary import Vocabulary
from simulmt.parts.builders import MODELS, build_mechanism


def settings(name: str) -> dict[str, Any]:
    """A file of `conf/model` with the one it is based on."""
    options = yaml.safe_load((zoo.CONF / "model" / f"{name}.yaml").read_text())
    for base in options.pop("defaults", []):
        if base != "_self_":
            options = settings(base) | options
    return options


def parameters(name: str, mechanism: str, vocabulary: int, **overrides: Any) -> int:
    options = settings(name) | overrides
    make = MODELS[options.pop("name")]
    with torch.device("meta"):
        parts = build_mechanism(zoo.options(mechanism))
        made = make(vocabulary=Vocabulary(vocabulary), mechanism=parts, **options)
    return sum(parameter.numel() for parameter in made.parameters())


def lstm(inputs: int, d: int) -> int:
    """Four gates: input and recurrent weights, a gain and a bias for each unit."""
    return 4 * (inputs * d + d * d + 2 * d)


def test_the_size_of_the_milk_paper() -> None:
    """6 + 8 layers of 512 units, 32,000 subwords (Arivazhagan et al. 2019, section 5.1)."""
    d, V = 512, 32_000
    embeddings = 2 * V * d
    encoder = 6 * lstm(d, d)
    decoder = 8 * lstm(2 * d, d)  # each layer gets the layer below, or the word, and the context
    selection = 2 * d * d + d + d + 1 + 1  # W_s, W_h, b, v, g, r
    soft = 2 * d * d + d + d  # W_s, W_h, b, v
    softmax = 2 * d * V + V
    total = embeddings + encoder + decoder + selection + soft + softmax
    assert total == 104_424_706
    assert parameters("rnmt_plus_milk", "milk", V) == total


def test_a_bidirectional_encoder_has_twice_the_layers_and_a_projection() -> None:
    d, V = 512, 32_000
    both = 2 * lstm(d, d) + 5 * 2 * lstm(2 * d, d) + (2 * d * d + d)
    causal = parameters("rnmt_plus_milk", "soft", V, encoder="causal")
    assert parameters("rnmt_plus_milk", "soft", V) == causal - 6 * lstm(d, d) + both


def test_luong_has_an_attentional_vector_and_feeds_it() -> None:
    fed = parameters("luong", "soft", 100)
    d = settings("luong")["dim"]
    assert fed - parameters("luong", "soft", 100, input_feeding=False) == 4 * d * d


@pytest.mark.parametrize("kind", zoo.kinds(zoo.options("soft")))
@pytest.mark.parametrize("bad", [{"heads": 3}, {"dim": 0}, {"decoder_layers": 0}, {"dropout": 1.0}])
def test_sizes_that_no_model_has_are_refused(kind: str, bad: dict[str, Any]) -> None:
    with pytest.raises((UserError, ValidationError), match=next(iter(bad))):
        zoo.model(zoo.options("soft"), kind=kind, **bad)


@pytest.mark.parametrize("kind", zoo.kinds(zoo.options("milk")))
def test_a_mechanism_of_one_head_has_the_context_of_its_paper(kind: str) -> None:
    """Sums of source states in recurrent models, projected values in Transformers."""
    made = zoo.model(zoo.options("milk"), kind=kind)
    attentions = [part for part in made.modules() if isinstance(part, Attention)]
    projected = {isinstance(part.value, torch.nn.Linear) for part in attentions}
    assert projected == {kind.startswith("transformer")}


SCORED = [
    (score, kind)
    for score in ("dot", "general", "concat", "location", "additive")
    for kind in zoo.kinds(zoo.options("wait_k") | {"score": score})
]


@pytest.mark.parametrize(("score", "kind"), SCORED)
def test_any_score_serves_any_span_that_weighs(score: str, kind: str) -> None:
    made = zoo.model(zoo.options("wait_k") | {"score": score}, kind=kind)
    source, mask = zoo.sentences(3, 7)
    target = torch.randint(4, zoo.VOCABULARY, (3, 5))
    steps, _ = zoo.forced_steps(made, source, mask, target)
    torch.testing.assert_close(steps, made(source, mask, target).logits, rtol=0, atol=1e-9)


def test_a_score_is_refused_where_nothing_is_weighed() -> None:
    with pytest.raises(UserError, match="no option score"):
        build_mechanism(zoo.options("monotonic") | {"score": "dot"})
    with pytest.raises(UserError, match=r"mechanism.score is 'cosine'; choose one of usual"):
        build_mechanism(zoo.options("milk") | {"score": "cosine"})


@pytest.mark.parametrize("encoder", ["causal", "bidirectional"])
def test_only_the_first_decoder_layer_is_bound_step_to_step(encoder: str) -> None:
    """The others and the encoder run over whole sequences, once each (Chen et al. 2018)."""
    made = zoo.model(zoo.options("soft"), kind="rnmt_plus", encoder=encoder)
    calls: dict[str, int] = {}
    for name, layer in made.named_modules():
        if isinstance(layer, LSTM):
            layer.register_forward_hook(lambda *_, name=name: calls.update({name: 1}))
            layer.input.register_forward_hook(
                lambda *_, name=name: calls.update({f"{name} in": calls.get(f"{name} in", 0) + 1})
            )
    source, mask = zoo.sentences(3, 7)
    T = 5
    made(source, mask, torch.randint(4, zoo.VOCABULARY, (3, T)))
    assert "decoder.0" not in calls
    assert calls.pop("decoder.0 in") == T
    assert set(calls.values()) == {1}


def test_residual_connections_begin_after_the_second_layer() -> None:
    """What the first two layers give is carried past all others, but nothing past the first two."""
    x, mask = torch.randn(2, 5, 8), torch.ones(2, 5, dtype=torch.bool)
    encoder = RnmtPlusEncoder(8, 5, causal=True, dropout=Dropout(0.0))
    second = encoder.forwards[1](encoder.forwards[0](x))
    for layer in encoder.forwards[2:]:
        silence(layer)
    torch.testing.assert_close(encoder(x, mask), second, rtol=0, atol=0)
    silence(encoder.forwards[1])
    assert not encoder(x, mask).any()


def silence(layer: LSTM) -> None:
    """Make an LSTM whose output gate stays shut."""
    layer.gain.data.zero_()
    layer.bias.data.zero_()
    layer.bias.data[2] = -1e4


def least(made: Model, source: Tensor, mask: Tensor, ahead: int) -> Tensor:
    """What heads that stop at once read: to the first end, the positions ahead, whole words."""
    ends = made.encode(source, mask).ends
    rows = (mask if ends is None else ends).tolist()
    return torch.tensor(
        [
            row.index(True, min(row.index(True) + ahead, n - 1)) + 1
            for row, n in zip(rows, mask.sum(1).tolist(), strict=True)
        ]
    )


@pytest.mark.parametrize(("name", "kind"), zoo.pairs(zoo.LEARNED))
def test_the_energy_bias_decides_whether_fresh_heads_read_on(kind: str, name: str) -> None:
    source, mask = zoo.sentences(3, 7)
    target = torch.randint(4, zoo.VOCABULARY, (3, 4))
    for bias, reads_all in ((-1e6, True), (1e6, False)):
        made = zoo.fresh(zoo.MECHANISMS[name] | {"energy_bias": bias}, kind)
        _, read = zoo.forced_steps(made, source, mask, target)
        chosen = zoo.MECHANISMS[name]
        ahead = chosen["window"] if chosen["span"] == "window" else 0
        expected = mask.sum(1) if reads_all else least(made, source, mask, ahead)
        assert torch.equal(read, expected[:, None].expand_as(read))
