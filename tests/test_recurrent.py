"""The recurrent models: their sizes, their options, what is refused."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import yaml
from torch import Tensor

import zoo
from simulmt.laws.small import SMALL
from simulmt.models.lstm import LSTM
from simulmt.models.model import Model
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


@pytest.mark.parametrize("kind", ["rnmt_plus", "luong"])
def test_what_a_clock_sees_of_a_side_has_a_scale_of_one(kind: str) -> None:
    torch.manual_seed(0)
    made = SMALL[kind](mechanism=build_mechanism(zoo.options("wait_info")))
    tokens, start = torch.arange(1, made.vocabulary.size)[None], torch.zeros(1, dtype=torch.long)
    tables = {"source": made.source_embedding, "target": made.target_embedding}
    for side, table in tables.items():
        seen = made.embedded(tokens, start, side)
        torch.testing.assert_close(seen / seen.norm(), table(tokens) / table(tokens).norm())
        # of some hundred draws: their deviation has a standard error of 1 / sqrt(2 n)
        assert abs(seen.std() - 1) < 4 / (2 * seen.numel()) ** 0.5


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
