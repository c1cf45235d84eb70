"""The likelihood of each token, chunk by chunk, against the same from all logits at once."""

import pytest
import torch
from likelihood import from_all_logits
from torch import Tensor
from torch.nn import functional
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

import zoo
from simulmt.models.projection import Projection
from simulmt.objective import likelihood
from simulmt.objective.likelihood import TokenLosses, token_losses

EXACT = {"rtol": 1e-12, "atol": 1e-13}
"""float64; only the order of summation differs."""
NEAR = {"rtol": 1e-5, "atol": 1e-6}
"""float32."""


@pytest.fixture(autouse=True, params=[1, 4, 512])
def _chunks(request, monkeypatch) -> None:
    """One token, some, and all tokens at a time."""
    monkeypatch.setattr(likelihood, "_TOKENS", request.param)


def example(B=3, T=5, V=11, E=6, bias=True, dtype=torch.float64):
    torch.manual_seed(0)
    states, weight = (torch.randn(*n, E, dtype=dtype).requires_grad_() for n in ((B, T), (V,)))
    output = Projection(weight, torch.randn(V, dtype=dtype).requires_grad_() if bias else None)
    mask = torch.arange(T) < torch.tensor([2, 5, 3])[:B, None]
    return states, output, torch.randint(V, (B, T)), mask


def leaves(states: Tensor, output: Projection) -> list[Tensor]:
    return [x for x in (states, *output) if x is not None]


def gradients(how, weigh, states, output, target, mask):
    """Losses and gradients of a weighted sum of the losses."""
    losses = how(states, output, target, mask)
    total = sum((w * loss).sum() for w, loss in zip(weigh, losses, strict=True))
    return [*losses, *torch.autograd.grad(total, leaves(states, output))]


def assert_same(got, want, **tolerance) -> None:
    for one, other in zip(got, want, strict=True):
        torch.testing.assert_close(one, other, **tolerance)


WEIGHTS = {
    "equal": lambda: (0.9, 0.1),
    "no smoothing": lambda: (1.0, 0.0),
    "each its own": lambda: torch.randn(2, 3, 5, dtype=torch.float64),
    "none": lambda: (0.0, 0.0),
}


@pytest.mark.parametrize("bias", [True, False], ids=["bias", "no bias"])
@pytest.mark.parametrize("weigh", WEIGHTS.values(), ids=WEIGHTS)
def test_values_and_gradients_are_those_from_all_logits(weigh, bias):
    given, weights = example(bias=bias), weigh()
    got, want = (gradients(how, weights, *given) for how in (token_losses, from_all_logits))
    assert_same(got, want, **EXACT)
    assert not got[2][~given[-1]].any(), "a gradient at padding"


def test_gradcheck():
    states, output, target, mask = example()

    def losses(states: Tensor, *output: Tensor) -> TokenLosses:
        return token_losses(states, Projection(*output), target, mask)

    def smoothed(*given: Tensor) -> Tensor:
        return losses(*given).smoothed(0.1).sum()

    for loss in (losses, smoothed):
        # a second backward pass sums up in another order
        assert torch.autograd.gradcheck(loss, leaves(states, output), nondet_tol=1e-12)


def test_smoothing_is_the_cross_entropy_of_torch():
    states, output, target, mask = example()
    logits, kept = output(states)[mask], target[mask]
    expected = functional.cross_entropy(logits, kept, label_smoothing=0.3, reduction="none")
    got = token_losses(states, output, target, mask).smoothed(0.3)[mask]
    torch.testing.assert_close(got, expected, **EXACT)


def test_gradients_of_several_batches_add_up_and_a_graph_can_be_used_again():
    states, output, target, mask = example()
    whole = gradients(token_losses, (0.9, 0.1), states, output, target, mask)[2:]
    for one in range(len(target)):
        sentence, *rest = (x[one : one + 1] for x in (states, target, mask))
        token_losses(sentence, output, *rest).smoothed(0.1).sum().backward()
    assert_same([x.grad for x in leaves(states, output)], whole, **EXACT)
    total = token_losses(states, output, target, mask).smoothed(0.1).sum()
    for _ in range(2):
        again = torch.autograd.grad(total, leaves(states, output), retain_graph=True)
        assert_same(again, whole, **EXACT)
    with pytest.raises(RuntimeError, match="create_graph"):
        torch.autograd.grad(total, states, create_graph=True)


@pytest.mark.parametrize(("B", "T", "real"), [(0, 5, 0), (2, 0, 0), (2, 3, 0), (1, 1, 1)], ids=str)
def test_no_token_and_a_single_one(B, T, real):
    torch.manual_seed(0)
    states, weight = torch.randn(B, T, 4).requires_grad_(), torch.randn(7, 4).requires_grad_()
    mask = torch.full((B, T), bool(real))
    given = states, Projection(weight), torch.randint(7, (B, T)), mask
    got, want = (gradients(how, (0.9, 0.1), *given) for how in (token_losses, from_all_logits))
    assert_same(got, want, **NEAR)


def test_large_logits_stay_finite():
    """exp(1000) is infinite in float32."""
    states = torch.tensor([[[1000.0], [-1000.0]]]).requires_grad_()
    output = Projection(torch.tensor([[1.0], [0.0], [-1.0]]))
    nll, uniform = token_losses(states, output, torch.tensor([[2, 2]]), torch.ones(1, 2).bool())
    assert nll.tolist() == [[2000.0, 0.0]]
    assert uniform.tolist() == [[1000.0, 1000.0]]
    nll.sum().backward()
    assert states.grad.flatten().tolist() == [2.0, 0.0]


def test_autocast_leaves_the_softmax_in_float32():
    states, output, target, mask = example(V=300, E=16, dtype=torch.float32)
    want = gradients(from_all_logits, (0.9, 0.1), states, output, target, mask)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        got = gradients(token_losses, (0.9, 0.1), states, output, target, mask)
    assert all(x.dtype == torch.float32 for x in got)
    # bfloat16 has 8 bits: logits of up to 20 are off by 0.05, and their errors are independent
    assert_same(got, want, rtol=0.05, atol=0.1)
    assert (got[0] >= 0).all()


def test_no_tensor_holds_all_logits(monkeypatch):
    """An element more than a chunk's logits is never allocated, not in the backward pass either."""
    sizes = []

    class Watch(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            out = func(*args, **(kwargs or {}))
            sizes.extend(x.numel() for x in tree_leaves(out) if isinstance(x, Tensor))
            return out

    monkeypatch.setattr(likelihood, "_TOKENS", 4)
    B, T, V, E = 4, 8, 50, 3
    states, weight = torch.randn(B, T, E).requires_grad_(), torch.randn(V, E).requires_grad_()
    given = states, Projection(weight), torch.randint(V, (B, T)), torch.ones(B, T).bool()
    for weights in ((0.9, 0.1), torch.rand(2, B, T)):
        with Watch():
            gradients(token_losses, weights, *given)
    assert 0 < max(sizes) <= 4 * V


@pytest.mark.parametrize("name", ["soft", "mma_il", "wait_k"])
def test_the_gradient_of_a_tied_embedding_is_dense(name):
    """Also summed over batches: Adam and the all-reduce take no sparse gradient."""
    model = zoo.model(zoo.options(name)).train()
    words = torch.randint(4, zoo.VOCABULARY, (2, 5))
    mask = torch.ones_like(words).bool()
    for _ in range(2):
        out = model(words, mask, words)
        token_losses(out.states, out.output, words, mask).nll.sum().backward()
        assert model.embedding.weight.grad.layout == torch.strided
