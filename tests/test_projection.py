"""The output layer in decoding: by blocks, and with a matrix that lies column by column."""

from __future__ import annotations

import pytest
import torch

import zoo
from simulmt.laws.sentences import sentences
from simulmt.live.translator import Translator
from simulmt.models.projection import BLOCK, Projection, by_columns
from simulmt.saved import checkpoint

# the order of a sum of 64 products of order 1, in float32
CLOSE = {"rtol": 0, "atol": 1e-5}


@pytest.mark.parametrize("size", [7, BLOCK, BLOCK + 1, 2 * BLOCK + 5])
@pytest.mark.parametrize("biased", [False, True])
def test_blocks_give_the_same_logits(size, biased):
    weight, states = torch.randn(size, 64), torch.randn(9, 64) / 8
    output = Projection(weight, torch.randn(size) if biased else None)
    torch.testing.assert_close(output.of_step(states), output(states), **CLOSE)
    assert torch.equal(output.of_step(states[:1]), output(states[:1]))


@pytest.mark.parametrize(("kind", "name"), [
    ("transformer", "embedding.weight"), ("rnmt_plus", "output.weight"), ("luong", "output.weight"),
])  # fmt: skip
def test_the_output_layer_alone_lies_by_columns(kind, name):
    model = zoo.model(zoo.options("soft"), 1, kind)
    weights, size = model.state_dict(), model.vocabulary.size
    laid = by_columns(weights, model, size)
    assert [key for key in laid if laid[key] is not weights[key]] == [name]
    assert laid[name].t().is_contiguous()
    source, mask = sentences(4, 6, 1, model.vocabulary)
    with torch.inference_mode():
        before = model.step(source[:, 0], model.start(model.encode(source, mask))).logits
        model.load_state_dict(laid, assign=True)
        after = model.step(source[:, 0], model.start(model.encode(source, mask))).logits
    torch.testing.assert_close(after, before)


def test_all_models_of_a_file_share_it(run):
    trained = checkpoint.load(run)
    one, other = (trained.build().embedding.weight for _ in range(2))
    assert one.t().is_contiguous()
    assert one.data_ptr() == other.data_ptr()
    translator = Translator.of(trained, "cpu")
    assert translator.model.embedding.weight.data_ptr() == one.data_ptr()
