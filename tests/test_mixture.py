"""The losses of two views and their mixture, chunk by chunk, against autograd on all logits."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from simulmt.models.projection import Projection
from simulmt.objective import likelihood
from simulmt.objective.mixture import Mix, Views, mixture_losses


def example(bias: bool, N: int = 9, V: int = 11, E: int = 6) -> tuple[Views, Projection]:
    torch.manual_seed(0)
    prefix, whole, weight = (
        torch.randn(n, E, dtype=torch.float64).requires_grad_() for n in (N, N, V)
    )
    c, b = (torch.randn(n, dtype=torch.float64).requires_grad_() for n in (N, V))
    return Views(prefix, whole, c, torch.randint(V, (N,))), Projection(weight, b if bias else None)


def from_all_logits(views: Views, output: Projection, mix: Mix) -> Tensor:
    smooth = torch.full_like(output(views.whole), mix.smoothing / len(output.weight)).detach()
    smooth.scatter_add_(1, views.target[:, None], torch.full_like(smooth, 1 - mix.smoothing))
    p, q = (output(x).log_softmax(-1) for x in (views.prefix, views.whole))
    c = views.confidence[:, None]
    other = q.detach() if mix.detach else q
    m = torch.logaddexp(p + functional.logsigmoid(c), other + functional.logsigmoid(-c))
    return -(smooth * (q + mix.strength * m)).sum()


def leaves(views: Views, output: Projection) -> list[Tensor]:
    return [x for x in (*views[:3], *output) if x is not None]


@pytest.mark.parametrize("tokens", [1, 4, 512])
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("detach", [True, False])
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_losses_and_gradients_are_those_of_all_logits(
    smoothing: float, detach: bool, bias: bool, tokens: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(likelihood, "_TOKENS", tokens)
    (views, output), mix = example(bias), Mix(smoothing, 0.7, detach)
    losses, expected = mixture_losses(views, output, mix), from_all_logits(views, output, mix)
    # float64: only the order of summation differs
    torch.testing.assert_close(losses.total, expected, rtol=1e-12, atol=1e-12)
    given = leaves(views, output)
    got, want = (torch.autograd.grad(3 * x, given) for x in (losses.total, expected))
    for one, other in zip(got, want, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-10, atol=1e-12)


def test_a_token_that_both_views_exclude_has_a_finite_loss() -> None:
    """In float32 its probability is 0, and the loss is cut off at that of the least number."""
    views, output = example(bias=True)
    given = [(200 * x).detach().float().requires_grad_() for x in views[:2]]
    large = Views(*given, views.confidence.detach().float(), views.target)
    losses = mixture_losses(large, Projection(output.weight.float()), Mix(0.1, 1.0, False))
    gradients = torch.autograd.grad(losses.total, given)
    assert all(x.isfinite().all() for x in (losses.total, *gradients))


def test_there_are_no_second_derivatives() -> None:
    views, output = example(bias=True)
    losses = mixture_losses(views, output, Mix(0.1, 1.0, False))
    with pytest.raises(RuntimeError, match="create_graph"):
        torch.autograd.grad(losses.total, views.whole, create_graph=True)


def test_the_parts_that_are_logged_are_those_of_the_mixture():
    (views, output), mix = example(bias=True), Mix(0.1, 0.7, detach=False)
    losses = mixture_losses(views, output, mix)
    p, q = (output(x).softmax(-1) for x in (views.prefix, views.whole))
    c, rows = views.confidence.sigmoid()[:, None], torch.arange(len(views.target))
    mixed = (c * p + (1 - c) * q).log()
    nll = -q.log()[rows, views.target].sum()
    mixture = -(0.9 * mixed[rows, views.target] + 0.1 * mixed.mean(1)).sum()
    torch.testing.assert_close((losses.nll, losses.mixture), (nll, mixture), rtol=1e-9, atol=0)
