"""The Transformer's activations and output bias, and what opens a sentence."""

from __future__ import annotations

from functools import partial

import pytest
import torch

import zoo
from simulmt.decoding.streaming import units
from simulmt.laws import LAWS, Case, check
from simulmt.laws.small import transformer
from simulmt.models.layers import FeedForward, LayerOptions
from simulmt.models.vocabulary import Vocabulary
from simulmt.parts.builders import build_mechanism

OPTIONS = {"activation": "silu", "output_bias": True}
OPENING = Vocabulary(size=9, pad=8, unk=1, bos=8, eos=0, begins=(True,) * 9, opening=(2,))


@pytest.mark.parametrize("law", LAWS)
def test_the_laws_hold_with_other_options(law):
    mechanism = build_mechanism(zoo.options("mma_il"))
    check(law, Case(mechanism, partial(transformer, **OPTIONS)), "transformer with other options")


@pytest.mark.parametrize("name", ["relu", "silu", "gelu"])
def test_activations_are_those_of_torch(name):
    layer, x = FeedForward(LayerOptions(8, 12, 2, 0.5, True, name)).eval(), torch.randn(2, 3, 8)
    expected = layer.narrow(getattr(torch.nn.functional, name)(layer.widen(x)))
    assert torch.equal(layer(x), expected)
    assert not torch.equal(layer.train()(x), expected)


def test_the_output_bias_is_added():
    made = zoo.model(zoo.options("soft"), output_bias=True)
    source = torch.tensor([[5, 6, 3]])
    mask, start = source > 0, torch.tensor([[2, 7]])
    before = made(source, mask, start).logits
    with torch.no_grad():
        made.output_bias.normal_()
    torch.testing.assert_close(made(source, mask, start).logits, before + made.output_bias)
    stepped = made.step(start[:, 0], made.start(made.encode(source, mask)))
    torch.testing.assert_close(stepped.logits, made(source, mask, start).logits[:, 0])


@pytest.mark.parametrize("unit", ["word", "subword"])
def test_what_opens_a_sentence_belongs_to_its_first_word(unit):
    made = zoo.model(
        zoo.options("wait_k") | {"source_unit": unit},
        vocabulary=OPENING._replace(begins=(True, *[False, True] * 4)),
    )
    source = torch.tensor([[2, 4, 3, 6, 0, 8]])
    ends = made.word_ends(source, source < 8)
    assert ends.tolist() == [[False, False, True, True, True, False]]
    arriving = units(made, source[0].tolist())
    parts = [[2, 4, 3], [6], [0]] if unit == "word" else [[2], [4], [3], [6], [0]]
    assert [next(arriving) for _ in parts] == parts


@pytest.mark.parametrize("norm", ["pre", "post"])
def test_what_encoder_and_decoder_return_is_normalised(norm: str) -> None:
    made = zoo.case(zoo.options("wait_k"), norm=norm).model()
    source, mask = zoo.sentences(3, 7)
    encoded = made.encode(source, mask)
    for states in (encoded.states, made.decode(encoded, source).states):
        torch.testing.assert_close(states.mean(-1), torch.zeros_like(states[..., 0]))
        spread = states.std(-1, correction=0)
        # the norm adds 1e-5 to the variance
        torch.testing.assert_close(spread, torch.ones_like(spread), rtol=1e-3, atol=0)
