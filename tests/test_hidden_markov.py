"""The forward algorithm of HMT: against all paths, and the kernel against the equations."""

import itertools
from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch.nn.functional import logsigmoid

from operators import EXACT, close
from simulmt.ops.hidden_markov import forward_algorithm, log_likelihood, reference

FORMS = pytest.mark.parametrize("form", [forward_algorithm, reference], ids=["cpu", "reference"])
Form = Callable[[Tensor, Tensor, Tensor], Tensor]

# log f and the gradients are computed in float64 and rounded once, by at most half an epsilon
ROUNDED = torch.finfo(torch.float32).eps / 2


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


def results(form: Form, translate: Tensor, emission: Tensor, reads: Tensor) -> list[Tensor]:
    """log f, where it is finite, and the gradients of a weighted sum of it."""
    leaves = [x.clone().requires_grad_() for x in (translate, emission)]
    log_f = form(*leaves, reads)
    generator = torch.Generator().manual_seed(1)
    weights = torch.randn(log_f.shape, generator=generator, dtype=torch.float64)
    # each sentence's gradient is near 1, however long the sentence
    gradients = torch.autograd.grad(log_f, leaves, (weights / log_f.shape[1]).to(log_f.dtype))
    return [log_f.detach().clamp(min=-1e4), *gradients]


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


@FORMS
@pytest.mark.parametrize("L", [-2, 1, 3])
@pytest.mark.parametrize(("T", "K"), [(1, 1), (1, 4), (5, 2), (6, 3)])
def test_it_sums_over_all_paths(T, K, L, form):
    torch.manual_seed(0)
    for inputs in (case(4, T, K, L=L), impossible(4, T, K)):
        f = form(*inputs).exp()
        for row, *one in zip(f, *inputs, strict=True):
            close(row, all_paths(*one), EXACT)


@pytest.mark.parametrize("kind", ["usual", "impossible"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=["f32", "f64"])
@pytest.mark.parametrize("shape", [(5, 1, 1), (17, 3, 2), (16, 9, 4), (21, 30, 8)], ids=str)
def test_kernel_equals_reference(shape, dtype, kind):
    torch.manual_seed(0)
    translate, emission, reads = case(*shape, S=20) if kind == "usual" else impossible(*shape)
    # the reference gets the kernel's rounded inputs, so that only the arithmetic differs
    inputs = translate.to(dtype), emission.to(dtype)
    got = results(forward_algorithm, *inputs, reads)
    want = results(reference, *(x.double() for x in inputs), reads)
    for mine, theirs in zip(got, want, strict=True):
        assert mine.dtype == dtype
        assert mine.isfinite().all()
        # the weights of the gradients are rounded once more, and 8 of them add up
        close(mine, theirs, EXACT if dtype == torch.float64 else 10 * ROUNDED)


@FORMS
def test_gradcheck(form):
    translate, emission, reads = case(2, 4, 3, S=5)
    inputs = translate.requires_grad_(), emission.requires_grad_()
    assert torch.autograd.gradcheck(lambda t, e: form(t, e, reads), inputs)
    lengths = torch.tensor([4, 2])
    assert torch.autograd.gradcheck(lambda t, e: log_likelihood(form(t, e, reads), lengths), inputs)


# --- laws --------------------------------------------------------------------------------------


@FORMS
def test_without_emissions_states_are_a_distribution(form):
    translate, emission, reads = case(5, 20, 6, S=15)
    log_f = form(translate, torch.zeros_like(emission), reads)
    close(log_f.logsumexp(-1), torch.zeros(5, 20, dtype=torch.float64), EXACT)
    expected = (log_f.exp() * reads).sum(-1)
    assert (expected.diff(dim=1) >= -EXACT).all()  # no path ever goes back
    same = emission[..., :1].expand_as(emission)  # equal emissions factor out
    close(form(translate, same, reads), log_f + same.cumsum(1), EXACT)


@FORMS
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=["f32", "f64"])
def test_long_sentences_stay_finite(dtype, form):
    generator = torch.Generator().manual_seed(0)
    wait = 30 * torch.randn(3, 200, 8, generator=generator, dtype=dtype)
    emission = torch.full((3, 200, 8), -20.0, dtype=dtype)
    leaves = [wait.requires_grad_(), emission.requires_grad_()]
    lengths = torch.tensor([200, 200, 7])
    log_f = form(waiting(wait), emission, case(3, 200, 8, S=210)[2])
    found = log_likelihood(log_f, lengths)
    close(found, -20 * lengths.double(), 10 * torch.finfo(dtype).eps)  # relative to 4000
    gradients = torch.autograd.grad(found.sum(), leaves)
    assert all(x.isfinite().all() for x in gradients)
    shares = gradients[1].sum(-1)  # of each token's states in the likelihood
    real = torch.arange(200) < lengths[:, None]
    # shares are exponentials of differences between numbers of size 4000, which are rounded once
    # per token, and 200 roundings may add up; in float32 the kernel rounds only its result
    roundings = 1 if form is forward_algorithm and dtype == torch.float32 else 200
    close(shares, real.double(), roundings * 4000 * torch.finfo(dtype).eps)


@FORMS
@pytest.mark.parametrize("filling", [1e4, -torch.inf])
def test_padding_changes_nothing(filling, form):
    translate, emission, reads = case(4, 6, 3)
    lengths = torch.tensor([6, 1, 4, 5])
    after = (torch.arange(6) >= lengths[:, None])[..., None]
    leaves = [x.masked_fill(after, filling).requires_grad_() for x in (translate, emission)]
    log_f = form(*leaves, reads.masked_fill(after, 0))
    gradients = torch.autograd.grad(log_likelihood(log_f, lengths).sum(), leaves)
    assert all((x[after.expand_as(x)] == 0).all() for x in gradients)
    for b, T in enumerate(lengths.tolist()):
        alone = [x[b : b + 1, :T].detach().requires_grad_() for x in (translate, emission)]
        log_f_alone = form(*alone, reads[b : b + 1, :T])
        assert torch.equal(log_f_alone[0], log_f[b, :T])
        own = torch.autograd.grad(log_likelihood(log_f_alone, lengths[b : b + 1]), alone)
        for mine, theirs in zip(own, gradients, strict=True):
            close(mine[0], theirs[b, :T], EXACT)


# --- an operator of PyTorch --------------------------------------------------------------------


def test_torch_sees_an_ordinary_operator():
    translate, emission, reads = case(3, 4, 3)
    inputs = translate.requires_grad_(), emission.requires_grad_(), reads
    torch.library.opcheck(torch.ops.simulmt.hidden_markov.default, inputs)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=["bf16", "f16"])
def test_half_precision_and_autocast_give_float32(dtype):
    translate, emission, reads = case(3, 4, 3)
    leaves = [x.to(dtype).requires_grad_() for x in (translate, emission)]
    want = forward_algorithm(*(x.double() for x in leaves), reads).float()
    compiled = torch.compile(forward_algorithm, backend="aot_eager", fullgraph=True)
    with torch.autocast("cpu", torch.bfloat16):
        for form in (forward_algorithm, compiled):
            log_f = form(*leaves, reads)
            assert log_f.dtype == torch.float32
            assert torch.equal(log_f, want)
    gradients = torch.autograd.grad(log_likelihood(log_f, torch.tensor([4, 2, 1])).sum(), leaves)
    assert all(x.dtype == dtype for x in gradients)


def test_views_and_threads():
    inputs = case(300, 20, 8, S=320)
    want = forward_algorithm(*inputs)
    for kind in (lambda x: x.mT.contiguous().mT, lambda x: x.int() if x is inputs[2] else x):
        assert torch.equal(forward_algorithm(*map(kind, inputs)), want)
    assert torch.equal(forward_algorithm(*(x[7:8] for x in inputs)), want[7:8])
    threads = torch.get_num_threads()
    try:
        torch.set_num_threads(3)
        assert torch.equal(forward_algorithm(*inputs), want)
    finally:
        torch.set_num_threads(threads)


@FORMS
def test_no_sentences_and_no_tokens(form):
    for shape in ((0, 4, 3), (2, 0, 3)):
        x = torch.zeros(shape, requires_grad=True)
        log_f = form(x, x, torch.zeros(shape, dtype=torch.int64))
        assert log_f.shape == shape
        log_f.sum().backward()
