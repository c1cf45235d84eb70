"""Expected alignment and attention: reference against brute force, compiled against reference."""

from __future__ import annotations

import functools
import itertools
import math
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from torch import Tensor

from operators import EXACT, FAST, case, close, each_close, every_case, outputs_and_gradients
from simulmt.ops import (
    cpu,
    expected_alignment,
    expected_alignment_and_attention,
    expected_attention,
    reference,
)

# --- the compiled loops against the reference --------------------------------------------------


BACKENDS = pytest.mark.parametrize("backend", ["cpu", "reference"])
DTYPES = pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=["f32", "f64"])


@DTYPES
@pytest.mark.parametrize("chunk", [None, 3], ids=["lookback", "chunk3"])
@pytest.mark.parametrize(
    "shape",
    # rows: fewer than a tile of 16, exactly a tile, a little more; positions likewise, and many
    [(5, 1, 1), (16, 4, 16), (21, 5, 30), (5, 50, 63), (5, 50, 1), (5, 20, 300)],
    ids=str,
)
def test_cpu_equals_reference(
    shape: tuple[int, int, int], chunk: int | None, dtype: torch.dtype
) -> None:
    # the reference gets the kernel's rounded inputs, so that only the arithmetic differs
    inputs = [x.to(dtype) for x in every_case(*shape)]
    got = outputs_and_gradients(*inputs, chunk, "cpu")
    want = outputs_and_gradients(*(x.double() for x in inputs), chunk, "reference")
    for key, value in want.items():
        each_close(got[key], value, FAST if dtype == torch.float32 else EXACT)
    assert got["alpha"].dtype == got["beta"].dtype == got["dp"].dtype == dtype


@DTYPES
@pytest.mark.parametrize(  # the kernel reads several rows at a time, all of them or a single one
    "shape", [(5, 1, 1), (17, 3, 2), (21, 5, 30), (18, 3, 500), (5, 2, 1030)], ids=str
)
def test_one_pass_equals_two(shape: tuple[int, int, int], dtype: torch.dtype) -> None:
    p, energy, initial = every_case(*shape)
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
        each_close(got, want, FAST if dtype == torch.float32 else EXACT)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=["bf16", "f16"])
@BACKENDS
def test_half_precision_is_computed_in_float32(backend: str, dtype: torch.dtype) -> None:
    inputs = [x.to(dtype) for x in every_case(5, 6, 20)]
    got = outputs_and_gradients(*inputs, None, backend)
    assert got["alpha"].dtype == got["beta"].dtype == torch.float32
    assert got["dp"].dtype == got["denergy"].dtype == got["dinitial"].dtype == dtype
    want = outputs_and_gradients(*(x.double() for x in inputs), None, "reference")
    for key, value in want.items():
        # gradients are rounded once to the input's dtype, by at most half its epsilon
        rounding = torch.finfo(dtype).eps / 2 if key.startswith("d") else 0
        each_close(got[key], value, FAST + rounding)


@BACKENDS
def test_gradcheck(backend: str) -> None:
    p, energy = (x.requires_grad_() for x in case("uniform", 1, 2, 4))
    initial = torch.full((1, 4), 0.2, dtype=torch.float64, requires_grad=True)
    alignment = functools.partial(expected_alignment, backend=backend)
    assert torch.autograd.gradcheck(alignment, (p, initial))
    for chunk in (None, 2, 3):
        attention = functools.partial(expected_attention, chunk=chunk, backend=backend)
        assert torch.autograd.gradcheck(attention, (p, energy))
    one_pass = functools.partial(expected_alignment_and_attention, backend=backend)
    assert torch.autograd.gradcheck(one_pass, (p, energy, initial))


def test_reference_differentiates_twice() -> None:
    def both(p: Tensor, energy: Tensor) -> tuple[Tensor, ...]:
        alpha = expected_alignment(p, None, "reference")
        return tuple(expected_attention(alpha, energy, c, "reference") for c in (None, 2))

    inputs = [x.requires_grad_() for x in case("uniform", 1, 2, 3)]
    assert torch.autograd.gradgradcheck(both, inputs)


# --- the reference against brute force ---------------------------------------------------------


def enumerate_outcomes(p: Tensor) -> Tensor:
    """Alpha (T, S) of one sentence, as a sum over all paths.

    A path is a list of stops t_1 <= t_2 <= ...; a head that passes the end never comes back.
    """
    T, S = p.shape
    odds, alpha = p.tolist(), torch.zeros_like(p)
    for stops in itertools.combinations_with_replacement(range(S + 1), T):  # S: past the end
        probability, at = 1.0, 0
        for i, stop in enumerate(stops):
            probability *= math.prod(1 - x for x in odds[i][at:stop])
            probability *= odds[i][stop] if stop < S else 1
            at = stop
        for i, stop in enumerate(stops):
            if stop < S:
                alpha[i, stop] += probability
    return alpha


@pytest.mark.parametrize("preserve", [True, False], ids=["mass-preserved", "mass-lost"])
@pytest.mark.parametrize(("T", "S"), [(1, 1), (1, 6), (4, 2), (3, 5), (4, 6)])
def test_reference_equals_enumeration(T: int, S: int, preserve: bool) -> None:
    p, energy = (x[0] for x in case("uniform", 1, T, S))
    if preserve:
        p[:, -1] = 1
    alpha = enumerate_outcomes(p)
    close(expected_alignment(p, backend="reference"), alpha, EXACT)
    for chunk in (None, 1, 2, 3):
        beta = torch.zeros_like(p)
        for stop in range(S):
            first = 0 if chunk is None else max(0, stop - chunk + 1)
            weights = energy[:, first : stop + 1].softmax(-1)
            beta[:, first : stop + 1] += alpha[:, stop, None] * weights
        close(expected_attention(alpha, energy, chunk, backend="reference"), beta, EXACT)


# --- laws --------------------------------------------------------------------------------------


@BACKENDS
def test_rows_of_alpha_are_distributions(backend: str) -> None:
    p = every_case(20, 6, 40)[0].float()
    assert (expected_alignment(p, backend=backend).sum(-1) <= 1 + 1e-6).all()
    p[..., -1] = 1
    alpha = expected_alignment(p, backend=backend)
    assert (alpha >= 0).all()
    # 40 positions by 6 steps, each rounding by at most 6e-8 of a mass of 1
    torch.testing.assert_close(alpha.sum(-1), torch.ones(20, 6), rtol=0, atol=2e-6)


@BACKENDS
@pytest.mark.parametrize("chunk", [None, 1, 4, 99], ids=lambda c: f"chunk={c}")
def test_beta_spends_the_mass_of_alpha(chunk: int | None, backend: str) -> None:
    p, energy = (x.float() for x in every_case(20, 3, 40)[:2])
    alpha = expected_alignment(p, backend=backend)
    beta = expected_attention(alpha, energy, chunk, backend)
    assert (beta >= 0).all()
    torch.testing.assert_close(beta.sum(-1), alpha.sum(-1), rtol=0, atol=2e-6)  # as above
    mass_ahead = alpha.flip(-1).cumsum(-1).flip(-1)
    assert (beta[mass_ahead == 0] == 0).all()  # nothing beyond the last stop


@BACKENDS
def test_chunk_of_one_is_alpha_and_a_long_chunk_is_lookback(backend: str) -> None:
    p, energy = case("near-binary", 17, 3, 40)
    alpha = expected_alignment(p, backend=backend)
    assert torch.equal(expected_attention(alpha, energy, 1, backend), alpha)
    lookback = expected_attention(alpha, energy, None, backend)
    assert torch.equal(expected_attention(alpha, energy, 41, backend), lookback)
    ops = {"cpu": cpu, "reference": reference}[backend]
    # called directly, chunks of 1 and S run the kernel
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
    gradients = [torch.autograd.grad((x * weights).sum(), p)[0] for x in (stepwise, whole)]
    # the two gradients of a row are added in another order
    torch.testing.assert_close(*gradients, rtol=0, atol=FAST)


# --- operators of PyTorch -----------------------------------------------------------------------


def test_shapes_strides_and_threads() -> None:
    p, energy = (x.float() for x in case("uniform", 256, 20, 20))
    alpha = expected_alignment(p)
    beta = expected_attention(alpha, energy)
    grid = p.view(16, 16, 20, 20).transpose(0, 1)
    assert torch.equal(expected_alignment(grid), alpha.view(16, 16, 20, 20).transpose(0, 1))
    assert torch.equal(expected_alignment(p.mT.contiguous().mT), alpha)
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


@pytest.mark.slow
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


def test_torch_sees_ordinary_operators() -> None:
    p, energy = (x.float().requires_grad_() for x in case("uniform", 5, 3, 8))
    rows, u, initial = (torch.rand(5, 8, requires_grad=True) for _ in range(3))
    ops = torch.ops.simulmt
    torch.library.opcheck(ops.alignment.default, (p, initial))
    torch.library.opcheck(ops.lookback.default, (rows, u))
    torch.library.opcheck(ops.chunkwise.default, (rows, u, 3))
    torch.library.opcheck(ops.alignment_lookback.default, (p, energy, initial))


def test_compiles_under_autocast() -> None:
    p, energy = (x.float().requires_grad_() for x in case("uniform", 5, 3, 8))

    def both(p: Tensor, energy: Tensor) -> Tensor:
        one_pass = expected_alignment_and_attention(p, energy)
        return expected_attention(expected_alignment(p), energy) + torch.add(*one_pass)

    compiled = torch.compile(both, backend="aot_eager", fullgraph=True)
    with torch.autocast("cpu", torch.bfloat16):
        got = compiled(p, energy)
    want = both(p, energy)
    assert got.dtype == torch.float32
    assert torch.equal(got, want)
    weights = torch.randn_like(p)
    gradients = [torch.autograd.grad((x * weights).sum(), (p, energy)) for x in (got, want)]
    assert all(map(torch.equal, *gradients))


def test_wrong_arguments_are_explained() -> None:
    p = torch.rand(2, 3, 4)
    with pytest.raises(ValueError, match=r"'gpu' does not exist.*auto, reference, cpu"):
        expected_alignment(p, backend="gpu")
    assert expected_alignment(p.to("meta")).shape == p.shape  # "auto" takes the reference
    with pytest.raises(ValueError, match=r"\(2, 3, 4\).*\(2, 3, 3\)"):
        expected_attention(p, p[..., :3])
