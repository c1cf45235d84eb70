"""The GPU's kernels against the reference: on a GPU if there is one, otherwise interpreted.

Triton decides at its import whether to interpret. Without a GPU the first test therefore runs this
file once more, in a process with TRITON_INTERPRET=1 from its start. The interpreter takes a tenth
of a millisecond or more for every element of a scan, so shapes are small.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch import Tensor

import simulmt.ops
from operators import CASES, EXACT, FAST, case, close, outputs_and_gradients
from simulmt.ops import cuda, expected_alignment, expected_attention

GPU = torch.cuda.is_available() and not cuda.INTERPRETED
DEVICE = "cuda" if GPU else "cpu"

if not cuda.INSTALLED:
    pytest.skip("Triton is not installed: pip install 'simulmt[gpu]'", allow_module_level=True)

runs = pytest.mark.skipif(
    not (GPU or cuda.INTERPRETED), reason="no GPU; run by test_in_the_interpreter"
)


@pytest.fixture(autouse=True)
def _few_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    if cuda.INTERPRETED:  # a program's rows beyond the last would cost as much as real ones
        monkeypatch.setattr(cuda, "PER_WARP", 1)


@pytest.mark.skipif(GPU or cuda.INTERPRETED, reason="the tests below run here as they are")
@pytest.mark.parametrize(
    "which", ["not slow", pytest.param("slow", marks=pytest.mark.slow)], ids=["fast", "slow"]
)
def test_in_the_interpreter(which: str) -> None:
    environment = os.environ | {"TRITON_INTERPRET": "1", "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-m", which, __file__]
    done = subprocess.run(
        command,
        check=False,
        capture_output=True,
        text=True,
        timeout=600,
        env=environment,
        cwd=Path(__file__).parents[1],
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "passed" in done.stdout


def every_case(T: int, S: int) -> tuple[Tensor, Tensor, Tensor]:
    """p and energy (N, T, S) and initial (N, S), one row for each of the cases."""
    pairs = [case(name, 1, T, S) for name in CASES]
    p, energy = (torch.cat(x) for x in zip(*pairs, strict=True))
    return p, energy, case("uniform", 1, len(p), S)[0][0].softmax(-1)


def compare(
    inputs: tuple[Tensor, Tensor, Tensor], chunk: int | None, dtype: torch.dtype, rounding: float
) -> None:
    """Compare with the reference, which gets the kernels' rounded inputs in float64."""
    rounded = [x.to(dtype) for x in inputs]
    p, energy, initial = (x.double() for x in rounded)
    got = outputs_and_gradients(rounded[0], rounded[1], rounded[2], chunk, "cuda", DEVICE)
    for key, value in outputs_and_gradients(p, energy, initial, chunk, "reference").items():
        # gradients are rounded once to the input's dtype
        close(got[key], value, rounding + (gradient_rounding(dtype) if key[0] == "d" else 0))
    inside = torch.float64 if dtype == torch.float64 else torch.float32
    assert got["alpha"].dtype == got["beta"].dtype == inside
    assert got["dp"].dtype == got["dinitial"].dtype == dtype


def gradient_rounding(dtype: torch.dtype) -> float:
    return torch.finfo(dtype).eps / 2 if dtype.itemsize == 2 else 0


@runs
@pytest.mark.parametrize("chunk", [None, 3], ids=["lookback", "chunk3"])
@pytest.mark.parametrize(("T", "S"), [(2, 1), (3, 7)])
def test_equals_reference(T: int, S: int, chunk: int | None) -> None:
    compare(every_case(T, S), chunk, torch.float32, FAST)


@runs
@pytest.mark.slow
@pytest.mark.parametrize("chunk", [None, 2, 7], ids=["lookback", "chunk2", "chunk7"])
@pytest.mark.parametrize("S", [63, 100, 300])
def test_equals_reference_on_a_long_source(S: int, chunk: int | None) -> None:
    p, energy, initial = every_case(2, S)
    rows = slice(None) if GPU or S < 300 else slice(1, 3)  # the cases that break the closed form
    compare((p[rows], energy[rows], initial[rows]), chunk, torch.float32, FAST)


@runs
@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("chunk", [None, 2], ids=["lookback", "chunk2"])
def test_float64_stays_and_half_precision_is_computed_in_float32(
    chunk: int | None, dtype: torch.dtype
) -> None:
    compare(every_case(2, 5), chunk, dtype, EXACT if dtype == torch.float64 else FAST)


@runs
def test_several_rows_in_a_program(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cuda, "PER_WARP", 32)  # S = 5 in blocks of 8: 4 rows, then 1
    for chunk in (None, 3):
        compare(every_case(2, 5), chunk, torch.float32, FAST)


@runs
def test_any_finite_energy() -> None:
    # no two alike, for the reference rounds L = 1e38 + log 2 to 1e38
    energy = torch.tensor([[[1e38, -1.5e38, 0.0, 1.5e38, -1e-38, 1.2e38]]])
    p = torch.tensor([[[0.5, 0.5, 0.25, 0.0, 0.5, 1.0]]])
    for chunk in (None, 3):
        compare((p, energy, torch.eye(1, 6)), chunk, torch.float32, FAST)


@runs
@pytest.mark.parametrize("chunk", [None, 3], ids=["lookback", "chunk3"])
def test_torch_sees_ordinary_operators(chunk: int | None) -> None:
    ops = torch.ops.simulmt
    p, energy = (torch.rand(2, 4, device=DEVICE, requires_grad=True) for _ in range(2))
    if chunk is None:
        rows = torch.rand(2, 2, 4, device=DEVICE, requires_grad=True)
        torch.library.opcheck(ops.cuda_alignment.default, (rows, p))
        torch.library.opcheck(ops.cuda_lookback.default, (p, energy))
    else:
        torch.library.opcheck(ops.cuda_chunkwise.default, (p, energy, chunk))


@runs
@pytest.mark.parametrize("chunk", [None, 3], ids=["lookback", "chunk3"])
def test_compiles_under_autocast(chunk: int | None) -> None:
    p, energy = (torch.rand(2, 2, 4, device=DEVICE, requires_grad=True) for _ in range(2))

    def both(p: Tensor, energy: Tensor) -> Tensor:
        alpha = expected_alignment(p, backend="cuda")
        return expected_attention(alpha, energy, chunk, backend="cuda")

    compiled = torch.compile(both, backend="aot_eager", fullgraph=True)
    with torch.autocast(DEVICE, torch.bfloat16):
        got = compiled(p, energy)
    want = both(p, energy)
    assert got.dtype == torch.float32
    assert torch.equal(got, want)
    weights = torch.randn_like(p)
    gradients = [torch.autograd.grad((x * weights).sum(), (p, energy)) for x in (got, want)]
    for a, b in zip(*gradients, strict=True):
        assert torch.equal(a, b)


@pytest.mark.slow
@pytest.mark.skipif(cuda.INTERPRETED, reason="the interpreter compiles nothing")
@pytest.mark.parametrize("name", ["alignment", "lookback", "chunkwise"])
def test_compiles_for_a_gpu_that_is_not_here(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Compile for an H100: the interpreter runs programs that the compiler refuses."""
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    from simulmt.ops import cuda_kernels

    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    sizes = {"ROWS": 4, "BLOCK": 64, "STAGES": 3}
    steps = ["chunk_tops", "chunk_means"] if name == "chunkwise" else []
    for kernel in (getattr(cuda_kernels, x) for x in (name, f"{name}_adjoint", *steps)):
        names = [x.name for x in kernel.params]
        integers = dict.fromkeys(["N", "T", "S", "chunk"], "i32")
        kinds = integers | dict.fromkeys(sizes, "constexpr")
        source = ASTSource(
            fn=kernel,
            signature={x: kinds.get(x, "*fp32") for x in names},
            constexprs={(i,): sizes[x] for i, x in enumerate(names) if x in sizes},
        )
        options = {"num_warps": 1, "enable_fp_fusion": True}
        built = triton.compile(source, target=GPUTarget("cuda", 90, 32), options=options)
        assert built.asm["cubin"]


@pytest.mark.skipif(not GPU, reason="no GPU")
def test_auto_takes_the_kernels_on_a_gpu() -> None:
    p = torch.rand(2, 3, 4, device="cuda")
    assert simulmt.ops._backend("auto", p) is cuda
    assert simulmt.ops._backend("auto", p.expand(1, 2, 3, 4)) is cuda
    long = torch.rand(1, 1, cuda.LONGEST + 1, device="cuda")
    assert simulmt.ops._backend("auto", long) is simulmt.ops.reference
