"""Expected alignment and attention: reference against brute force, compiled against reference."""

from __future__ import annotations

import functools
import itertools
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from torch import Tensor

import simulmt.ops
from operators import CASES, EXACT, FAST, case, close, outputs_and_gradients
from simulmt.ops import (
    cpu,
    cuda,
    expected_alignment,
    expected_alignment_and_attention,
    expected_attention,
    reference,
)

# --- the compiled loops against the reference --------------------------------------------------


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=["f32", "f64"])
@pytest.mark.parametrize("chunk", [None, 3], ids=["lookback", "chunk3"])
@pytest.mark.parametrize(
    "shape",
    # rows: fewer than a tile of 16, exactly a tile, a little more; positions likewise
    [(3, 1, 1), (17, 3, 2), (16, 4, 16), (21, 5, 30), (5, 50, 1), (5, 1, 63), (18, 2, 63)],
    ids=str,
)
@pytest.mark.parametrize("name", CASES)
def test_cpu_equals_reference(
    name: str, shape: tuple[int, int, int], chunk: int | None, dtype: torch.dtype
) -> None:
    # the reference gets the kernel's rounded inputs, so that only the arithmetic differs
    p, energy = (x.to(dtype) for x in case(name, *shape))
    initial = case("uniform", 1, shape[0], shape[2])[0][0].softmax(-1).to(dtype)
    got = outputs_and_gradients(p, energy, initial, chunk, "cpu")
    want = outputs_and_gradients(p.double(), energy.double(), initial.double(), chunk, "reference")
    for key, value in want.items():
        close(got[key], value, FAST if dtype == torch.float32 else EXACT)
    assert got["alpha"].dtype == got["beta"].dtype == got["dp"].dtype == dtype


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=["f32", "f64"])
@pytest.mark.parametrize(
    # the kernel reads several rows at a time, all of them or a single one
    "shape",
    [(3, 1, 1), (17, 3, 2), (21, 5, 30), (18, 5, 500), (2, 3, 1030)],
    ids=str,
)
@pytest.mark.parametrize("name", CASES)
def test_one_pass_equals_two(name: str, shape: tuple[int, int, int], dtype: torch.dtype) -> None:
    p, energy = case(name, *shape)
    initial = case("uniform", 1, shape[0], shape[2])[0][0].softmax(-1)
    inputs = [x.to(dtype) for x in (p.logit(), energy, initial)]  # with -inf and inf among them
    weights = [torch.randn(shape, dtype=torch.float64) for _ in range(2)]
    results = []
    for values, backend in ((inputs, "cpu"), ([x.double() for x in inputs], "reference")):
        leaves = [x.clone().requires_grad_() for x in values]
        outputs = expected_alignment_and_attention(*leaves, backend=backend)
        loss = sum((x.double() * w).sum() for x, w in zip(outputs, weights, strict=True))
        results.append([*outputs, *torch.autograd.grad(loss, leaves)])
    for got, want in zip(*results, strict=True):
        assert got.dtype == dtype
        close(got, want, FAST if dtype == torch.float32 else EXACT)


@pytest.mark.parametrize("used", ["alpha", "beta"])
def test_one_pass_if_only_one_output_is_used(used: str) -> None:
    p, energy = (x.float().requires_grad_() for x in case("uniform", 17, 4, 9))
    alpha, beta = expected_alignment_and_attention(p, energy)
    alpha_alone = expected_alignment(p.sigmoid())
    beta_alone = expected_attention(alpha_alone, energy)
    weights = torch.linspace(-1, 1, p.numel()).reshape(p.shape)
    gradients = [
        torch.autograd.grad((weights * x).sum(), (p, energy), materialize_grads=True)
        for x in {"alpha": (alpha, alpha_alone), "beta": (beta, beta_alone)}[used]
    ]
    for got, want in zip(*gradients, strict=True):
        close(got, want, FAST)


@pytest.mark.parametrize("chunk", [None, 3], ids=["lookback", "chunk3"])
@pytest.mark.parametrize("one_pass", [False, True], ids=["two", "one"])
def test_views_and_the_gradient_of_a_sum(one_pass: bool, chunk: int | None) -> None:
    """Elements of a view, or of an expanded gradient, do not lie side by side in memory."""
    if one_pass and chunk:
        pytest.skip("one pass looks back without limit")
    wide = [x.float() for x in case("uniform", 20, 3, 80)]
    results = []
    for backend in ("cpu", "reference"):
        leaves = [x.clone().requires_grad_() for x in wide]
        p, energy = (x[..., ::2] for x in leaves)
        if one_pass:
            alpha, beta = expected_alignment_and_attention(p, energy, backend=backend)
        else:
            alpha = expected_alignment(p, backend=backend)
            beta = expected_attention(alpha, energy, chunk, backend)
        places = torch.arange(40.0)
        gradients = torch.autograd.grad(alpha.sum() + (beta @ places).sum(), leaves)
        only_sum = torch.autograd.grad(expected_attention(p, energy, chunk, backend).sum(), leaves)
        results.append([alpha, beta, *gradients, *only_sum])
    for got, want in zip(*results, strict=True):
        close(got, want, FAST)


def test_one_pass_over_no_rows() -> None:
    p, energy = (torch.rand(17, 0, 9, requires_grad=True) for _ in range(2))
    initial = torch.rand(17, 9, requires_grad=True)
    alpha, beta = expected_alignment_and_attention(p, energy, initial)
    assert alpha.shape == beta.shape == p.shape
    (alpha.sum() + beta.sum() + initial.sum()).backward()
    assert torch.equal(initial.grad, torch.ones_like(initial))


@pytest.mark.parametrize("chunk", [None, 7], ids=["lookback", "chunk7"])
@pytest.mark.parametrize("name", CASES)
def test_cpu_equals_reference_on_a_long_source(name: str, chunk: int | None) -> None:
    T = 50 if name == "near-binary" and chunk is None else 2
    p, energy = (x.float() for x in case(name, 3, T, 500))
    initial = torch.zeros(3, 500)
    initial[:, 0] = 1
    got = outputs_and_gradients(p, energy, initial, chunk, "cpu")
    want = outputs_and_gradients(p.double(), energy.double(), initial.double(), chunk, "reference")
    for key, value in want.items():
        close(got[key], value, FAST)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=["bf16", "f16"])
@pytest.mark.parametrize("backend", ["cpu", "reference"])
def test_half_precision_is_computed_in_float32(backend: str, dtype: torch.dtype) -> None:
    p, energy = (x.to(dtype) for x in case("near-binary", 4, 6, 20))
    initial = torch.eye(20)[:4].to(dtype)
    got = outputs_and_gradients(p, energy, initial, None, backend)
    assert got["alpha"].dtype == got["beta"].dtype == torch.float32
    assert got["dp"].dtype == got["denergy"].dtype == got["dinitial"].dtype == dtype
    want = outputs_and_gradients(p.double(), energy.double(), initial.double(), None, "reference")
    for key, value in want.items():
        # gradients are rounded once to the input's dtype, by at most half its epsilon
        rounding = torch.finfo(dtype).eps / 2 if key.startswith("d") else 0
        close(got[key], value, FAST + rounding)


@pytest.mark.parametrize("backend", ["cpu", "reference"])
@pytest.mark.parametrize("chunk", [None, 2, 3], ids=["lookback", "chunk2", "chunk3"])
def test_gradcheck(backend: str, chunk: int | None) -> None:
    p, energy = (x.requires_grad_() for x in case("uniform", 2, 3, 5))
    initial = torch.full((2, 5), 0.2, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda p, a: expected_alignment(p, a, backend), (p, initial))
    alpha = torch.rand(2, 3, 5, dtype=torch.float64, requires_grad=True)

    def attention(alpha: Tensor, energy: Tensor) -> Tensor:
        return expected_attention(alpha, energy, chunk, backend)

    assert torch.autograd.gradcheck(attention, (alpha, energy))
    if chunk is None:
        one_pass = functools.partial(expected_alignment_and_attention, backend=backend)
        assert torch.autograd.gradcheck(one_pass, (p, energy, initial))


@pytest.mark.parametrize("chunk", [None, 2], ids=["lookback", "chunk2"])
def test_reference_differentiates_twice(chunk: int | None) -> None:
    p, energy = (x.requires_grad_() for x in case("uniform", 1, 2, 4))

    def both(p: Tensor, energy: Tensor) -> Tensor:
        return expected_attention(
            expected_alignment(p, None, "reference"), energy, chunk, "reference"
        )

    assert torch.autograd.gradgradcheck(both, (p, energy))


# --- the reference against brute force ---------------------------------------------------------


def enumerate_outcomes(p: Tensor, energy: Tensor, chunk: int | None) -> tuple[Tensor, Tensor]:
    """Alpha and beta (T, S) of one sentence, as sums over all paths.

    A path is a list of stops t_1 <= t_2 <= ...; a head that passes the end never comes back.
    """
    T, S = p.shape
    alpha, beta = torch.zeros_like(p), torch.zeros_like(p)
    for stops in itertools.product(range(S + 1), repeat=T):  # S: past the end
        probability, at = torch.ones((), dtype=p.dtype), 0
        for i, stop in enumerate(stops):
            if stop < at:
                probability = probability * 0
            for j in range(at, stop):
                probability = probability * (1 - p[i, j])
            if stop < S:
                probability = probability * p[i, stop]
            at = stop
        for i, stop in enumerate(stops):
            if stop < S:
                first = 0 if chunk is None else max(0, stop - chunk + 1)
                alpha[i, stop] += probability
                beta[i, first : stop + 1] += probability * energy[i, first : stop + 1].softmax(-1)
    return alpha, beta


@pytest.mark.parametrize("chunk", [None, 1, 2, 3], ids=["lookback", "chunk1", "chunk2", "chunk3"])
@pytest.mark.parametrize("preserve", [True, False], ids=["mass-preserved", "mass-lost"])
@pytest.mark.parametrize(("T", "S"), [(1, 1), (1, 6), (4, 2), (3, 5), (4, 6)])
def test_reference_equals_enumeration(T: int, S: int, preserve: bool, chunk: int | None) -> None:
    p, energy = (x[0] for x in case("uniform", 1, T, S))
    if preserve:
        p[:, -1] = 1
    alpha, beta = enumerate_outcomes(p, energy, chunk)
    got = expected_alignment(p, backend="reference")
    close(got, alpha, EXACT)
    close(expected_attention(got, energy, chunk, backend="reference"), beta, EXACT)


# --- laws --------------------------------------------------------------------------------------

BACKENDS = pytest.mark.parametrize("backend", ["cpu", "reference"])


@BACKENDS
@pytest.mark.parametrize("name", CASES)
def test_rows_of_alpha_are_distributions(name: str, backend: str) -> None:
    p, _ = case(name, 17, 6, 40)
    assert (expected_alignment(p.float(), backend=backend).sum(-1) <= 1 + 1e-6).all()
    p[..., -1] = 1
    alpha = expected_alignment(p.float(), backend=backend)
    assert (alpha >= 0).all()
    # 40 positions by 6 steps, each rounding by at most 6e-8 of a mass of 1
    torch.testing.assert_close(alpha.sum(-1), torch.ones(17, 6), rtol=0, atol=2e-6)


@BACKENDS
@pytest.mark.parametrize("chunk", [None, 1, 4, 39, 40, 99], ids=lambda c: f"chunk={c}")
@pytest.mark.parametrize("name", CASES)
def test_beta_spends_the_mass_of_alpha(name: str, chunk: int | None, backend: str) -> None:
    p, energy = (x.float() for x in case(name, 17, 3, 40))
    alpha = expected_alignment(p, backend=backend)
    beta = expected_attention(alpha, energy, chunk, backend)
    assert (beta >= 0).all()
    torch.testing.assert_close(beta.sum(-1), alpha.sum(-1), rtol=0, atol=2e-6)  # as above
    assert (
        beta[alpha.flip(-1).cumsum(-1).flip(-1) == 0] == 0
    ).all()  # nothing beyond the last stop


@BACKENDS
def test_chunk_of_one_is_alpha_and_a_long_chunk_is_lookback(backend: str) -> None:
    p, energy = case("near-binary", 17, 3, 40)
    alpha = expected_alignment(p, backend=backend)
    assert torch.equal(expected_attention(alpha, energy, 1, backend), alpha)
    lookback = expected_attention(alpha, energy, None, backend)
    assert torch.equal(expected_attention(alpha, energy, 41, backend), lookback)
    ops = {"cpu": cpu, "reference": reference}[
        backend
    ]  # called directly, chunks of 1 and S run the kernel
    rows = alpha.reshape(-1, 40), energy.reshape(-1, 40)
    close(ops.chunkwise(*rows, 1), rows[0], EXACT)
    close(ops.chunkwise(*rows, 40), lookback.reshape(-1, 40), EXACT)


@BACKENDS
def test_one_row_calls_equal_one_call(backend: str) -> None:
    p = case("near-binary", 17, 5, 30)[0].float().requires_grad_()
    whole = expected_alignment(p, backend=backend)
    rows: list[Tensor] = []
    for i in range(5):
        last = rows[-1][:, -1] if rows else None
        rows.append(expected_alignment(p[:, i : i + 1], last, backend))
    stepwise = torch.cat(rows, dim=1)
    assert torch.equal(stepwise, whole)  # the same arithmetic in the same order
    weights = torch.randn(17, 5, 30)
    torch.testing.assert_close(
        *(torch.autograd.grad((x * weights).sum(), p)[0] for x in (stepwise, whole)),
        rtol=0,
        atol=FAST,  # the two gradients of a row are added in another order
    )


@BACKENDS
def test_deterministic_heads_walk(backend: str) -> None:
    p = torch.tensor([[0.0, 1, 0, 1], [0, 0, 1, 1], [0, 0, 0, 1]])
    assert expected_alignment(p, backend=backend).argmax(-1).tolist() == [1, 2, 3]
    energy = torch.tensor([[1e4, -1e4, 0, 3e4]] * 3)
    beta = expected_attention(expected_alignment(p, backend=backend), energy, backend=backend)
    assert beta.tolist() == [[1, 0, 0, 0], [1, 0, 0, 0], [0, 0, 0, 1]]


# --- operators of PyTorch -----------------------------------------------------------------------


def test_shapes_strides_and_threads() -> None:
    p, energy = (x.float() for x in case("uniform", 256, 20, 20))
    alpha = expected_alignment(p)
    beta = expected_attention(alpha, energy)
    grid = p.view(16, 16, 20, 20).transpose(0, 1)
    assert torch.equal(expected_alignment(grid), alpha.view(16, 16, 20, 20).transpose(0, 1))
    columns = p.mT.contiguous().mT
    assert not columns.is_contiguous()
    assert torch.equal(expected_alignment(columns), alpha)
    assert torch.equal(expected_alignment(p[3]), alpha[3])
    assert expected_alignment(p[:0]).shape == (0, 20, 20)
    threads = torch.get_num_threads()
    try:
        for n in (1, 2, 3):
            torch.set_num_threads(n)
            assert torch.equal(expected_alignment(p), alpha)
            assert torch.equal(expected_attention(alpha, energy), beta)
        with ThreadPoolExecutor(4) as pool:  # from several threads at the same time
            results = pool.map(expected_alignment, [p] * 16)
        assert all(torch.equal(x, alpha) for x in results)
    finally:
        torch.set_num_threads(threads)


def test_a_forked_process_makes_threads_of_its_own() -> None:
    # in an interpreter of its own: pytest may have threads that make a fork unsafe
    program = """
import os, torch
from simulmt.ops import expected_alignment
torch.set_num_threads(2)
p = torch.rand(256, 20, 20)
alpha = expected_alignment(p)
child = os.fork()
if child == 0:
    os._exit(0 if torch.equal(expected_alignment(p), alpha) else 1)
raise SystemExit(os.waitpid(child, 0)[1])
"""
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    subprocess.run([sys.executable, "-c", program], check=True, timeout=50, env=environment)


@pytest.mark.parametrize("chunk", [None, 3], ids=["lookback", "chunk3"])
def test_torch_sees_ordinary_operators(chunk: int | None) -> None:
    p = case("uniform", 5, 3, 8)[0].float().requires_grad_()
    initial = torch.full((5, 8), 0.125, requires_grad=True)
    torch.library.opcheck(torch.ops.simulmt.alignment.default, (p, initial))
    rows = [torch.rand(5, 8, requires_grad=True), torch.randn(5, 8, requires_grad=True)]
    if chunk is None:
        torch.library.opcheck(torch.ops.simulmt.lookback.default, rows)
        energy = torch.randn(5, 3, 8, requires_grad=True)
        torch.library.opcheck(torch.ops.simulmt.alignment_lookback.default, (p, energy, initial))
    else:
        torch.library.opcheck(torch.ops.simulmt.chunkwise.default, (*rows, chunk))


def test_compiles_under_autocast() -> None:
    p, energy = (x.float().requires_grad_() for x in case("uniform", 5, 3, 8))

    def both(p: Tensor, energy: Tensor) -> Tensor:
        return expected_attention(expected_alignment(p), energy)

    compiled = torch.compile(both, backend="aot_eager", fullgraph=True)
    with torch.autocast("cpu", torch.bfloat16):
        got = compiled(p, energy)
    want = both(p, energy)
    assert got.dtype == torch.float32
    assert torch.equal(got, want)
    weights = torch.randn_like(p)
    for a, b in zip(
        torch.autograd.grad((got * weights).sum(), (p, energy)),
        torch.autograd.grad((want * weights).sum(), (p, energy)),
        strict=True,
    ):
        assert torch.equal(a, b)


def test_wrong_arguments_are_explained() -> None:
    p = torch.rand(2, 3, 4)
    with pytest.raises(ValueError, match=r"'gpu' does not exist.*auto, reference, cpu"):
        expected_alignment(p, backend="gpu")
    with pytest.raises(ValueError, match=r"backend='cpu'.*'meta'.*'auto' or 'reference'"):
        expected_alignment(p.to("meta"), backend="cpu")
    with pytest.raises(ValueError, match=r"chunk=0.*at least 1"):
        expected_attention(p, p, chunk=0)
    with pytest.raises(ValueError, match=r"\(2, 3, 4\).*\(2, 3, 3\)"):
        expected_attention(p, p[..., :3])
    with pytest.raises(ValueError, match="logit has shape"):
        expected_alignment_and_attention(p, p[..., :3])


def test_auto_takes_the_reference_off_the_cpu() -> None:
    assert simulmt.ops.expected_alignment(torch.rand(2, 3, 4, device="meta")).shape == (2, 3, 4)


def test_the_gpu_backend_says_why_it_cannot_run(monkeypatch: pytest.MonkeyPatch) -> None:
    p = torch.rand(2, 3, 4)
    monkeypatch.setattr(cuda, "INTERPRETED", False)
    monkeypatch.setattr(cuda, "INSTALLED", False)
    with pytest.raises(ValueError, match=r"backend='cuda' needs Triton.*simulmt\[gpu\]"):
        expected_alignment(p, backend="cuda")
    monkeypatch.setattr(cuda, "INSTALLED", True)
    with pytest.raises(ValueError, match=r"backend='cuda' .*GPU's memory.*'cpu'.*'reference'"):
        expected_attention(p, p, backend="cuda")
    assert cuda.obstacle("cuda", 4096) is None
    obstacle = cuda.obstacle("cuda", 4097)
    assert obstacle is not None
    assert "at most 4096 positions; this one has 4097" in obstacle
