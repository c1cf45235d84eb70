"""Weights that are rounded to 8 bits."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional

import zoo
from simulmt.decoding.greedy import greedy
from simulmt.errors import UserError
from simulmt.laws.sentences import sentences
from simulmt.models.eight_bit import FEWEST, round_weights
from simulmt.ops import eight_bit
from simulmt.ops.eight_bit import EightBit
from simulmt.parts.builders import pick_device
from simulmt.programs.evaluate import evaluate
from simulmt.programs.serve import serve
from simulmt.programs.translate import translate
from simulmt.serve import app
from small_runs import configuration

try:
    EightBit.of(torch.ones(1, 1))
    has_products = True
except UserError:
    has_products = False
needs_vnni = pytest.mark.skipif(not has_products, reason="the processor has no 8-bit products")


def rounded(x: torch.Tensor) -> torch.Tensor:
    """The definition: the values that 8 bits leave of each row."""
    step = x.abs().amax(1, keepdim=True).clamp(min=1e-30) / 127
    return (x / step).round().double() * step.double()


@needs_vnni
@pytest.mark.parametrize("shape", [(1, 1, 1), (7, 33, 5), (32, 512, 2048), (3, 4096, 17)])
def test_a_product_is_that_of_rounded_values(shape):
    rows, width, out = shape
    x, weight, bias = torch.randn(rows, width), torch.randn(out, width), torch.randn(out)
    x[0] = 0
    weight[-1] = 0
    found = functional.linear(x, EightBit.of(weight), bias)
    expected = rounded(x) @ rounded(weight).t() + bias.double()
    # the sums are exact in integers; their scales are float32
    torch.testing.assert_close(found.double(), expected, rtol=1e-5, atol=1e-5 * width**0.5)


@needs_vnni
def test_sums_of_the_largest_values_do_not_overflow():
    width = 4096
    for sign in (1, -1):
        x, weight = torch.full((2, width), 3.0), torch.full((5, width), 0.5 * sign)
        found = functional.linear(x, EightBit.of(weight))
        torch.testing.assert_close(found, torch.full((2, 5), 1.5 * sign * width))


@needs_vnni
def test_no_rows_have_no_products():
    assert functional.linear(torch.ones(1, 0, 8), EightBit.of(torch.ones(3, 8))).shape == (1, 0, 3)


@needs_vnni
def test_a_row_does_not_depend_on_the_others():
    x, weight = torch.randn(64, 128) * torch.logspace(-6, 6, 64)[:, None], torch.randn(300, 128)
    together, matrix = functional.linear(x[None], EightBit.of(weight)), EightBit.of(weight)
    for place in range(0, 64, 7):
        assert torch.equal(together[0, place : place + 1], matrix.times(x[place : place + 1]))


@needs_vnni
@pytest.mark.parametrize("kind", ["transformer", "rnmt_plus", "luong"])
@pytest.mark.parametrize("mechanism", ["soft", "mma_il", "wait_k"])
def test_a_model_of_rounded_weights_is_nearly_the_same(kind, mechanism):
    chosen = zoo.options(mechanism)
    if not zoo.takes(kind, chosen):
        pytest.skip(f"{mechanism} is not for {kind}")
    model, other = zoo.model(chosen, 1, kind).float(), zoo.model(chosen, 1, kind).float()
    other.load_state_dict(model.state_dict())
    round_weights(other)
    source, mask = sentences(8, 6, 1, model.vocabulary)
    target = source.flip(1)
    with torch.inference_mode():
        whole = [m.start(m.encode(source, mask)) for m in (model, other)]
        logits = [
            m.step(target[:, 0], s).logits for m, s in zip((model, other), whole, strict=True)
        ]
    difference = (logits[0] - logits[1]).std() / logits[0].std()
    assert 0 < difference < 0.1  # 8 bits leave 1 to 2% of each product, in several layers
    assert all(len(one.tokens) for one in greedy(other, source, mask))


@needs_vnni
def test_models_that_share_weights_share_rounded_ones():
    models, known = [zoo.model(zoo.options("soft")).float() for _ in range(2)], {}
    models[1].load_state_dict(models[0].state_dict(), assign=True)
    for model in models:
        round_weights(model, known)
    one, other = (m.encoder[0].self_attention.value.weight for m in models)
    assert one is other


@needs_vnni
def test_small_layers_keep_their_weights():
    model = zoo.model(zoo.options("itst"), 1).float()
    round_weights(model)
    linear = [m for m in model.modules() if isinstance(m, torch.nn.Linear)]
    assert all(isinstance(m.weight, EightBit) == (m.out_features >= FEWEST) for m in linear)
    assert isinstance(model.embedding.weight, torch.nn.Parameter)
    with pytest.raises(TypeError):
        torch.add(linear[0].weight, 1)  # takes the place of a matrix in `linear` alone


@needs_vnni
def test_a_file_is_not_already_translated_with_other_weights(trained_once, tmp_path):
    (tmp_path / "in.txt").write_text("der Mann schläft .\n", encoding="utf-8")
    run, places = trained_once("mechanism=wait_k"), (tmp_path / "in.txt", tmp_path / "out.txt")
    asked = [f"checkpoint={run}", f"input={places[0]}", f"output={places[1]}", "device=cpu"]
    translate(configuration("translate", *asked))
    with pytest.raises(UserError, match="weights=None, not weights=int8"):
        translate(configuration("translate", *asked, "weights=int8"))


def test_what_cannot_be_is_an_error(monkeypatch):
    monkeypatch.setattr(eight_bit, "_processor", lambda: {"avx2": True, "avx_vnni": False})
    with pytest.raises(UserError, match=r"weights=int8 needs a processor with VNNI.*leave out"):
        EightBit.of(torch.ones(2, 2))
    with pytest.raises(UserError, match="weights=int8 with device=cuda, a GPU: set device=cpu"):
        pick_device("cuda", "int8")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    assert pick_device("auto").type == "cuda"
    assert {pick_device(choice, "int8").type for choice in ("auto", "cpu")} == {"cpu"}


@pytest.mark.parametrize("verb", [serve, translate, evaluate])
def test_every_program_rounds_the_weights(verb, trained_once, tmp_path, monkeypatch):
    (tmp_path / "in.txt").write_text("wir gehen .\n")
    options = {"serve": ["port=0"], "translate": [f"input={tmp_path / 'in.txt'}"], "evaluate": []}
    monkeypatch.setattr(eight_bit, "_processor", lambda: {"avx2": True, "avx_vnni": False})
    name, run = verb.__name__, trained_once("mechanism=multi_path")
    if verb is serve:  # or it would serve for ever
        monkeypatch.setattr(app, "application", lambda *_: pytest.fail("float32"))
    with pytest.raises(UserError, match="weights=int8 needs a processor with VNNI"):
        verb(configuration(name, f"checkpoint={run}", "device=cpu", "weights=int8", *options[name]))
