"""Dropout: its masks are as good as random, its gradients are theirs, and where models drop."""

from collections import Counter
from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch.nn import functional

import zoo
from hashes import by_the_book
from simulmt.data.encoded import EncodedSplit
from simulmt.models.dropout import Dropout
from simulmt.ops.dropout import STEPS, dropout, dropout_added, dropout_relu, new_seed

N = 1 << 18
SIGMAS = 5  # one good generator in two million fails


def kept(seed: int, p: float = 0.5, n: int = N) -> Tensor:
    """The mask of a call, as numbers 0 and 1."""
    torch.manual_seed(seed)
    return (dropout(torch.ones(n), p) > 0).double()


@pytest.mark.parametrize("p", [0.1, 0.3, 0.9])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_mask_is_the_hash_of_seed_and_place(p, dtype):
    torch.manual_seed(3)
    out = dropout(torch.ones(1000, dtype=dtype), p)
    torch.manual_seed(3)
    seed = new_seed()
    hashes = by_the_book(seed, 1000)
    scale = torch.tensor(1 / (1 - p), dtype=dtype)
    assert torch.equal(out, (hashes < round((1 - p) * STEPS)).to(dtype) * scale)


@pytest.mark.parametrize("p", [0.001, 0.1, 0.5, 0.9])
def test_elements_are_dropped_at_the_given_rate(p):
    rates = torch.stack([kept(seed, p).mean() for seed in range(20)])
    spread = (p * (1 - p) / N) ** 0.5
    assert (rates - (1 - p)).abs().max() < SIGMAS * spread
    # the rates of many masks spread as those of independent elements do: chi-squared, 20 degrees
    assert 4 < ((rates - (1 - p)) / spread).square().sum() < 50


@pytest.mark.parametrize("lag", [1, 2, 16, 128, 256, 512, 1 << 12, 1 << 16])
def test_elements_are_independent_of_each_other(lag):
    x = 2 * kept(1) - 1
    together = (x[lag:] * x[:-lag]).mean()
    assert together.abs() < SIGMAS * (N - lag) ** -0.5


def test_the_expectation_is_the_identity():
    x = torch.randn(64, dtype=torch.float64)
    torch.manual_seed(0)
    mean = torch.stack([dropout(x, 0.3) for _ in range(4000)]).mean(0)
    spread = x.abs() * (0.3 / 0.7 / 4000) ** 0.5
    assert ((mean - x).abs() <= SIGMAS * spread).all()


def seeded(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    def run(*inputs: Tensor) -> Tensor:
        torch.manual_seed(1)
        return function(*inputs, 0.4)

    return run


def test_gradients_have_the_mask_of_the_forward_pass():
    x, y = (torch.randn(3, 7, dtype=torch.float64, requires_grad=True) for _ in range(2))
    for function, inputs in ((dropout, (x,)), (dropout_relu, (x,)), (dropout_added, (x, y))):
        assert torch.autograd.gradcheck(seeded(function), inputs)
    assert torch.autograd.gradgradcheck(seeded(dropout), (x,))


def test_joint_functions_equal_their_parts():
    x, y = torch.randn(5, 50), torch.randn(5, 50)
    added, rectified = seeded(dropout_added)(x, y), seeded(dropout_relu)(y)
    near = {"rtol": 1e-6, "atol": 1e-7}  # one rounding less
    torch.testing.assert_close(added, x + seeded(dropout)(y), **near)
    torch.testing.assert_close(rectified, seeded(dropout)(functional.relu(y)), **near)
    turned = seeded(dropout)(y.T.contiguous().T)
    assert torch.equal(turned, seeded(dropout)(y)), "the layout in memory changes nothing"


def test_the_number_of_threads_changes_no_mask():
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(1)
        alone = kept(6)
        torch.set_num_threads(2)
        assert torch.equal(kept(6), alone)
    finally:
        torch.set_num_threads(before)


def test_the_layer_is_the_identity_out_of_training_and_without_dropout():
    x, y = torch.randn(4, 4), torch.randn(4, 4)
    for layer in (Dropout(0.5).eval(), Dropout(0.0)):
        assert layer(x) is x
        assert torch.equal(layer.added(x, y), x + y)
        assert torch.equal(layer.rectified(x), functional.relu(x))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
def test_elsewhere_the_masks_are_those_of_torch(dtype):
    x = torch.ones(1000, dtype=dtype)
    layer = torch.compile(Dropout(0.3), backend="eager", fullgraph=True)
    run = layer if dtype == torch.float32 else Dropout(0.3)
    torch.manual_seed(1)
    out = run(x)
    torch.manual_seed(1)
    assert torch.equal(out, functional.dropout(x, 0.3))


def dropped(kind: str, monkeypatch: pytest.MonkeyPatch, **options: object) -> list[int]:
    """How often each dropout layer of a model works in a pass, the most used first."""
    calls: Counter[Dropout] = Counter()
    for name in ("forward", "added", "rectified"):
        real = getattr(Dropout, name)

        def counted(self: Dropout, *inputs: torch.Tensor, real=real) -> torch.Tensor:
            calls[self] += 1
            return real(self, *inputs)

        monkeypatch.setattr(Dropout, name, counted)
    made = zoo.model(zoo.options("wait_k"), kind=kind, dropout=0.5, **options).train()
    batch = EncodedSplit.of([[5, 6, 7], [8]], [[9], [10, 11, 12]], zoo.SPECIAL).batch([0, 1])
    made(batch.source, batch.source_mask, batch.target_input)
    assert {*calls} == {part for part in made.modules() if isinstance(part, Dropout)}
    return sorted(calls.values(), reverse=True)


@pytest.mark.parametrize("activation", ["relu", "silu"])
def test_a_transformer_drops_embeddings_and_after_each_sublayer(activation, monkeypatch):
    """2 and 3 sublayers of a layer, and the hidden units of its feed-forward network."""
    options = {"encoder_layers": 2, "decoder_layers": 1, "activation": activation}
    assert dropped("transformer", monkeypatch, **options) == [2] + [1] * (2 * 3 + 1 * 4)


def test_recurrent_models_drop_embeddings_and_what_their_layers_return(monkeypatch):
    layers = {"encoder_layers": 3, "decoder_layers": 3}
    assert dropped("rnmt_plus", monkeypatch, **layers) == [2 + 3 + 3]
    assert dropped("luong", monkeypatch, **layers, input_feeding=False) == [2 + 1]
    made = zoo.model(zoo.options("wait_k"), kind="luong", dropout=0.5, **layers)
    assert (made.encoder.dropout, made.decoder.dropout) == (0.5, 0.5), "between the layers"
