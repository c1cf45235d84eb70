"""One mechanism is a case of another, and the choices within a model that change no law.

Everything runs in float64, where 1e-9 is far above rounding and far below any real difference.
"""

from __future__ import annotations

import pytest
import torch

import zoo
from simulmt.attention.clocks import WaitK
from simulmt.errors import UserError
from simulmt.laws.of_training import training_is_hard_decoding
from simulmt.models.model import Model

NEAR = {"rtol": 0, "atol": 1e-9}


def with_weights_of(one: dict, other: dict, **overrides):
    """Both mechanisms' outputs with the same weights, as far as they have the same parameters."""
    first, second = zoo.model(one, **overrides), zoo.model(other, **overrides)
    second.load_state_dict(first.state_dict(), strict=False)
    source, mask = zoo.sentences(4, 9)
    target = torch.randint(4, zoo.VOCABULARY, (4, 7), generator=torch.Generator().manual_seed(3))

    def outputs(made: Model):
        return made(source, mask, target).logits, zoo.forced_steps(made, source, mask, target)[0]

    return outputs(first), outputs(second)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        pytest.param(
            zoo.options("mocha") | {"chunk": 1}, zoo.options("monotonic"), id="mocha(1)=monotonic"
        ),
        pytest.param(zoo.options("mocha") | {"chunk": 9}, zoo.options("milk"), id="mocha(S)=milk"),
        pytest.param(
            zoo.options("mma_c") | {"chunk": 1}, zoo.options("mma_h"), id="mma_c(1)=mma_h"
        ),
        pytest.param(
            zoo.options("mma_c") | {"chunk": 9}, zoo.options("mma_il"), id="mma_c(S)=mma_il"
        ),
        pytest.param(zoo.options("wait_k") | {"k": 9}, zoo.options("soft"), id="wait_k(S)=soft"),
        pytest.param(
            zoo.options("luong_local_m") | {"window": 9},
            zoo.options("luong_global"),
            id="local_m(S)=global",
        ),
    ],
)
@pytest.mark.parametrize("kind", zoo.kinds(zoo.options("monotonic")))
def test_one_mechanism_is_a_case_of_another(one, other, kind):
    for a, b in zip(*with_weights_of(one, other, kind=kind), strict=True):
        torch.testing.assert_close(a, b, **NEAR)


@pytest.mark.parametrize(
    ("many", "one"), [("mma_h", "monotonic"), ("mma_c", "mocha"), ("mma_il", "milk")]
)
@pytest.mark.parametrize("kind", zoo.kinds(zoo.options("monotonic")))
def test_multihead_attention_with_one_head_is_its_parent(many, one, kind):
    pair = with_weights_of(zoo.options(many), zoo.options(one), kind=kind, heads=1)
    for a, b in zip(*pair, strict=True):
        torch.testing.assert_close(a, b, **NEAR)


@pytest.mark.parametrize("feeding", [True, False])
def test_luong_trains_and_decodes_alike_with_and_without_input_feeding(feeding):
    training_is_hard_decoding(zoo.case(zoo.options("milk"), "luong", input_feeding=feeding))


@pytest.mark.parametrize("encoder", ["causal", "bidirectional", "auto"])
@pytest.mark.parametrize("kind", ["transformer", "rnmt_plus"])
def test_only_offline_mechanisms_may_look_ahead(encoder, kind):
    made = zoo.model(zoo.options("soft"), kind=kind, encoder=encoder)
    source, mask = zoo.sentences(1, 6)
    other = torch.cat([source[:, :4], source[:, 4:] + 1], 1)
    sees = (made.encode(source, mask).states != made.encode(other, mask).states)[0, 0].any()
    assert sees == (encoder != "causal")
    if encoder == "bidirectional":
        with pytest.raises(UserError, match="streams"):
            zoo.model(zoo.options("wait_k"), kind=kind, encoder=encoder)


@pytest.mark.parametrize(("p", "q"), [(1, 15), (1, 3), (10, 11), (4, 3), (11, 10), (999, 10)])
def test_wait_k_with_any_rate_and_long_targets(p, q):
    """The rate p / q, of which a configuration has a decimal number."""
    step = torch.arange(1, 20_001)
    expected = [3 + (i - 1) * q // p for i in step.tolist()]
    assert WaitK(3, p / q).wanted(step).tolist() == expected


@pytest.mark.parametrize(("k", "rate"), [(1, 1.0), (3, 1.0), (2, 1.1), (2, 0.5), (100, 1.0)])
@pytest.mark.parametrize("kind", zoo.kinds(zoo.options("wait_k")))
def test_wait_k_schedule(k, rate, kind):
    made = zoo.model(zoo.options("wait_k") | {"k": k, "emission_rate": rate}, kind=kind)
    source, mask = zoo.sentences(2, 40)
    _, read = zoo.forced_steps(made, source, mask, torch.full((2, 60), 7))
    tenths = round(10 * rate)
    for row, length in zip(read.tolist(), mask.sum(1).tolist(), strict=True):
        # floor((i - 1) / r) in whole numbers, since 33 / 1.1 is 29.999... in floating point
        assert row == [min(k + 10 * i // tenths, length) for i in range(60)]
