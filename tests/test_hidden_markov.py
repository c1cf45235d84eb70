"""The forward algorithm of HMT: against all paths, and its laws."""

from __future__ import annotations

import itertools
import math

import pytest
import torch
from torch import Tensor
from torch.nn.functional import logsigmoid

from operators import EXACT, close
from simulmt.ops.hidden_markov import forward_algorithm, log_likelihood


def waiting(wait: Tensor) -> Tensor:
    """log t from the logits to wait; in the last state translating is forced."""
    waits = logsigmoid(wait[..., :-1]).cumsum(-1)
    before = torch.cat([torch.zeros_like(wait[..., :1]), waits], -1)
    translates = torch.cat([logsigmoid(-wait[..., :-1]), torch.zeros_like(wait[..., :1])], -1)
    return before + translates


def case(B: int, T: int, K: int, S: int = 7, L: int = 1) -> tuple[Tensor, Tensor, Tensor]:
    """translate, emission and reads; sentences have S, S - 1, ... source tokens, 1 or more."""
    generator = torch.Generator().manual_seed(100 * T + K)
    wait = torch.randn(B, T, K, generator=generator, dtype=torch.float64)
    emission = torch.randn(B, T, K, generator=generator, dtype=torch.float64) - 2
    sources = (S - torch.arange(B)).clamp(min=1)
    sees = L + torch.arange(T)[:, None] + torch.arange(K)
    return waiting(wait), emission, sees.clamp(min=1).minimum(sources[:, None, None])


def impossible(B: int, T: int, K: int) -> tuple[Tensor, Tensor, Tensor]:
    """The same, where some t are 0 and some sentences lose all mass on the way."""
    translate, emission, reads = case(B, T, K, 2 * T)
    translate = translate.masked_fill(torch.rand(B, T, K) < 0.4, -torch.inf)
    translate[1::2, :, -1] = -0.5
    translate[0, 1:2] = -torch.inf
    return translate, emission, reads


def all_paths(translate: Tensor, emission: Tensor, reads: Tensor) -> Tensor:
    """f (T, K) of one sentence, as a sum over all K^T paths, with ordinary probabilities."""
    T, K = translate.shape
    t, e, c = translate.exp().tolist(), emission.exp().tolist(), reads.tolist()
    f = torch.zeros_like(translate)
    for i in range(T):
        for path in itertools.product(range(K), repeat=i + 1):
            probability = t[0][path[0]] * e[0][path[0]]
            for j in range(1, i + 1):
                n, seen = path[j], c[j - 1][path[j - 1]]
                shared = sum(t[j][k] for k in range(K) if c[j][k] >= seen)
                allowed = c[j][n] >= seen and shared > 0
                probability *= t[j][n] / shared * e[j][n] if allowed else 0
            f[i, path[-1]] += probability
    return f


# --- against other ways to compute the same ----------------------------------------------------


@pytest.mark.parametrize("L", [-2, 1, 3])
@pytest.mark.parametrize(("T", "K"), [(1, 1), (1, 4), (5, 2), (4, 4), (6, 3)])
def test_it_sums_over_all_paths(T: int, K: int, L: int) -> None:
    translate, emission, reads = case(4, T, K, L=L)
    f = forward_algorithm(translate, emission, reads).exp()
    for inputs, row in zip(zip(translate, emission, reads, strict=True), f, strict=True):
        close(row, all_paths(*inputs), EXACT)


def test_it_sums_over_all_paths_where_some_are_impossible() -> None:
    torch.manual_seed(0)
    inputs = impossible(6, 4, 3)
    f = forward_algorithm(*inputs).exp()
    for b in range(6):
        close(f[b], all_paths(*(x[b] for x in inputs)), EXACT)
    assert (f[0, 1:] == 0).all()  # no state to go to: all mass is lost


def test_gradcheck() -> None:
    translate, emission, reads = case(2, 4, 3, S=5)
    inputs = translate.requires_grad_(), emission.requires_grad_()
    assert torch.autograd.gradcheck(lambda t, e: forward_algorithm(t, e, reads), inputs)
    lengths = torch.tensor([4, 2])
    assert torch.autograd.gradcheck(
        lambda t, e: log_likelihood(forward_algorithm(t, e, reads), lengths), inputs
    )


# --- laws --------------------------------------------------------------------------------------


def test_a_single_state_sums_the_emissions() -> None:
    _, emission, reads = case(3, 6, 1)
    log_f = forward_algorithm(torch.zeros_like(emission), emission, reads)
    close(log_f, emission.cumsum(1), EXACT)


def test_without_emissions_states_are_a_distribution() -> None:
    translate, emission, reads = case(5, 20, 6, S=15)
    log_f = forward_algorithm(translate, torch.zeros_like(emission), reads)
    close(log_f.logsumexp(-1), torch.zeros(5, 20, dtype=torch.float64), EXACT)
    expected = (log_f.exp() * reads).sum(-1)
    assert (expected.diff(dim=1) >= -EXACT).all()  # no path ever goes back


def test_equal_emissions_factor_out() -> None:
    translate, emission, reads = case(5, 20, 6, S=15)
    same = emission[..., :1].expand_as(emission)
    states = forward_algorithm(translate, torch.zeros_like(emission), reads)
    close(forward_algorithm(translate, same, reads), states + same.cumsum(1), EXACT)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=["f32", "f64"])
def test_long_sentences_stay_finite(dtype: torch.dtype) -> None:
    generator = torch.Generator().manual_seed(0)
    wait = 30 * torch.randn(3, 200, 8, generator=generator, dtype=dtype)
    emission = torch.full((3, 200, 8), -20.0, dtype=dtype)
    leaves = [wait.requires_grad_(), emission.requires_grad_()]
    lengths = torch.tensor([200, 200, 7])
    log_f = forward_algorithm(waiting(wait), emission, case(3, 200, 8, S=210)[2])
    found = log_likelihood(log_f, lengths)
    close(found, -20 * lengths.double(), 10 * torch.finfo(dtype).eps)  # relative to 4000
    gradients = torch.autograd.grad(found.sum(), leaves)
    assert all(x.isfinite().all() for x in gradients)
    shares = gradients[1].sum(-1)  # of each token's states in the likelihood
    real = torch.arange(200) < lengths[:, None]
    # shares are exponentials of differences between numbers of size 4000, which are rounded once
    # per token, and 200 roundings may add up; in float32 only the result is rounded
    roundings = 1 if dtype == torch.float32 else 200
    close(shares, real.double(), roundings * 4000 * torch.finfo(dtype).eps)


@pytest.mark.parametrize("filling", [0.0, 1e4, -1e4, -torch.inf])
def test_padding_changes_nothing(filling: float) -> None:
    translate, emission, reads = case(4, 6, 3)
    lengths = torch.tensor([6, 1, 4, 5])
    after = (torch.arange(6) >= lengths[:, None])[..., None]
    leaves = [x.masked_fill(after, filling).requires_grad_() for x in (translate, emission)]
    log_f = forward_algorithm(*leaves, reads.masked_fill(after, 0))
    found = log_likelihood(log_f, lengths)
    gradients = torch.autograd.grad(found.sum(), leaves)
    assert all((x[after.expand_as(x)] == 0).all() for x in gradients)
    for b, T in enumerate(lengths.tolist()):
        alone = [x[b : b + 1, :T].detach().requires_grad_() for x in (translate, emission)]
        log_f_alone = forward_algorithm(*alone, reads[b : b + 1, :T])
        assert torch.equal(log_f_alone[0], log_f[b, :T])
        own = torch.autograd.grad(log_likelihood(log_f_alone, lengths[b : b + 1]), alone)
        for mine, theirs in zip(own, gradients, strict=True):
            close(mine[0], theirs[b, :T], EXACT)


def test_an_impossible_sentence_has_no_gradient() -> None:
    translate, emission, reads = case(2, 4, 3)
    translate[0, 2] = -torch.inf
    leaves = [translate.requires_grad_(), emission.requires_grad_()]
    found = log_likelihood(forward_algorithm(*leaves, reads), torch.tensor([4, 4]))
    assert found.isfinite().tolist() == [False, True]
    assert found[0] == -torch.inf
    for gradient in torch.autograd.grad(found.sum(), leaves):
        assert gradient.isfinite().all()
        assert (gradient[0] == 0).all()
        assert gradient[1].abs().sum() > 0


def test_confident_states_walk() -> None:
    """t is 0 or 1: exactly one path, and its reads never go back."""
    choice = torch.tensor([[2, 0, 1]])
    translate = torch.where(torch.arange(3) == choice[..., None], 0.0, -torch.inf)
    reads = torch.tensor([[[1, 2, 3], [3, 4, 5], [4, 5, 6]]])
    f = forward_algorithm(translate, torch.zeros(1, 3, 3), reads).exp()
    assert f[0].argmax(-1).tolist() == choice[0].tolist()
    assert f.sum(-1).tolist() == [[1, 1, 1]]
    reads[0, 1] = torch.tensor([2, 3, 4])  # the second token's only state would go back
    assert forward_algorithm(translate, torch.zeros(1, 3, 3), reads).exp().sum(-1).tolist() == [
        [1, 0, 0]
    ]


# --- other types and shapes ---------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=["bf16", "f16"])
def test_half_precision_and_autocast_give_float32(dtype: torch.dtype) -> None:
    translate, emission, reads = case(3, 4, 3)
    leaves = [x.to(dtype).requires_grad_() for x in (translate, emission)]
    want = forward_algorithm(*(x.double() for x in leaves), reads).float()
    compiled = torch.compile(forward_algorithm, backend="aot_eager", fullgraph=True)
    with torch.autocast("cpu", torch.bfloat16):
        for function in (forward_algorithm, compiled):
            log_f = function(*leaves, reads)
            assert log_f.dtype == torch.float32
            assert torch.equal(log_f, want)
    gradients = torch.autograd.grad(log_likelihood(log_f, torch.tensor([4, 2, 1])).sum(), leaves)
    assert all(x.dtype == dtype for x in gradients)


def test_no_sentences_and_no_tokens() -> None:
    for shape in ((0, 4, 3), (2, 0, 3)):
        x = torch.zeros(shape, requires_grad=True)
        log_f = forward_algorithm(x, x, torch.zeros(shape, dtype=torch.int64))
        assert log_f.shape == shape
        log_f.sum().backward()


def test_wrong_arguments_are_explained() -> None:
    translate, emission, reads = case(2, 4, 3)
    with pytest.raises(ValueError, match=r"\(2, 4, 3\), \(2, 4, 1\), \(2, 4, 3\); all must be"):
        forward_algorithm(translate, emission[..., :1], reads)
    with pytest.raises(ValueError, match="must be"):
        forward_algorithm(translate[0], emission[0], reads[0])


def test_the_likelihood_of_a_known_sentence() -> None:
    """Two tokens with two states each, by hand: from state 1 only state 1 can follow."""
    translate = torch.tensor([[[0.25, 0.75], [0.5, 0.5]]], dtype=torch.float64).log()
    emission = torch.tensor([[[0.1, 0.2], [0.3, 0.4]]], dtype=torch.float64).log()
    log_f = forward_algorithm(translate, emission, torch.tensor([[[1, 2], [1, 2]]]))
    from_0, from_1 = 0.25 * 0.1, 0.75 * 0.2
    want = from_0 * (0.5 * 0.3 + 0.5 * 0.4) + from_1 * 0.4
    assert math.isclose(log_likelihood(log_f, torch.tensor([2])).exp().item(), want, rel_tol=1e-12)
