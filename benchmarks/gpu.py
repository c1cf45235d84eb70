"""Time of expected alignment and attention on a GPU, in bytes moved per second.

    PYTHONPATH=src python benchmarks/gpu.py [--output gpu] [--repeats 20] [--tune]

First every result is compared with the reference in float64; a wrong result ends the run. Then each
kernel is timed alone, by events around the replay of a CUDA graph, and so are a softmax of the same
shape and a copy of 1 GiB. "Of copy" is the bytes that must move, divided by the time and by the
bandwidth of the copy. If everything fits into the GPU's cache, it can exceed 100%. "From Python" is
forward and backward through autograd, including the cost of launching. Whole training steps come
last (`gpu_steps.py`). The benchmark needs torch, Triton, jaxtyping and pytorch-lightning, and also
hydra-core for the steps, but no network. It writes a table in Markdown and in CSV.
"""

from __future__ import annotations

import argparse
import csv
import importlib.util
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor

from simulmt.ops import cuda, expected_alignment, expected_attention

CHECKED = [(3, 4, 1), (40, 6, 30), (9, 5, 63), (7, 3, 100), (5, 3, 300), (3, 2, 1000), (2, 2, 2500)]
SHAPES = [
    (64, 30, 30),
    (256, 60, 60),
    (1024, 50, 50),
    (4096, 50, 50),
    (1024, 100, 100),
    (256, 200, 200),
    (512, 50, 512),
    (4096, 100, 100),
]
CHUNK = 4
TOLERANCE = 1e-5  # of values scaled to at most 1, as in the tests
# Bytes per element that must move in float32; see simulmt/ops/cuda.py.
BYTES = {
    "softmax": 8,
    "softmax adjoint": 12,
    "alignment": 8,
    "alignment adjoint": 16,
    "lookback": 12,
    "lookback adjoint": 20,
    f"chunk {CHUNK}": 32,
    f"chunk {CHUNK} adjoint": 52,
}
Shape = tuple[int, int, int]
Row = dict[str, str | float]


def errors(shape: Shape, chunk: int | None, binary: bool) -> dict[str, float]:
    """Largest differences of outputs and gradients from the reference in float64, on the CPU."""
    p, energy, weights = torch.rand(shape), 3 * torch.randn(shape), torch.randn(2, *shape)
    if binary:  # mostly 0, 1 and next to them
        p = torch.sigmoid(20 * torch.randn(shape)).round(decimals=2)
        energy = 1e4 * energy
    found: list[list[Tensor]] = []
    for device, dtype, backend in (
        ("cuda", torch.float32, "cuda"),
        ("cpu", torch.float64, "reference"),
    ):
        given = [x.detach().to(device, dtype, copy=True).requires_grad_() for x in (p, energy)]
        alpha = expected_alignment(given[0], backend=backend)
        beta = expected_attention(alpha, given[1], chunk, backend=backend)
        torch.autograd.backward((torch.stack([alpha, beta]) * weights.to(device, dtype)).sum())
        gradients = [torch.zeros_like(x) if x.grad is None else x.grad for x in given]
        found.append([x.detach().cpu().double() for x in (alpha, beta, *gradients)])
    return {
        name: float((got - want).abs().max() / want.abs().max().clamp(min=1))
        for name, got, want in zip(("alpha", "beta", "dp", "du"), *found, strict=True)
    }


def check() -> list[str]:
    """Compare all results with the reference; lines about them. Exits if one is wrong or NaN."""
    lines = []
    for shape in CHECKED:
        for chunk in (None, CHUNK):
            for binary in (False, True):
                found = errors(shape, chunk, binary)
                line = f"{shape} chunk={chunk} {'near-binary' if binary else 'uniform'}: "
                line += ", ".join(f"{name} {value:.1e}" for name, value in found.items())
                print(line, flush=True)
                if not all(value <= TOLERANCE for value in found.values()):
                    sys.exit(f"wrong: more than {TOLERANCE} from the reference")
                lines.append(line)
    return lines


def milliseconds(run: Callable[[], object], repeats: int, launches: int = 1) -> float:
    """Median time of `run` by events around `launches` of them."""
    times = []
    for _ in range(repeats + 3):
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))  # type: ignore[no-untyped-call]
        start.record()
        for _ in range(launches):
            run()
        end.record()
        torch.cuda.synchronize()
        times.append(float(start.elapsed_time(end)) / launches)
    return statistics.median(times[3:])


def kernel_milliseconds(run: Callable[[], object], repeats: int, launches: int) -> float:
    """The same for a graph of `launches` runs, without the cost of Python or of launching."""
    for _ in range(3):
        run()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(launches):
            run()
    return milliseconds(graph.replay, repeats) / launches


def copy_bandwidth(repeats: int) -> float:
    """Bytes read and written per second by a copy of 1 GiB."""
    source = torch.rand(2**28, device="cuda")
    target = torch.empty_like(source)
    return 2 * 2**30 / (1e-3 * milliseconds(lambda: target.copy_(source), repeats))


def kernels(shape: Shape) -> dict[str, Callable[[], object]]:
    ops, aten = torch.ops.simulmt, torch.ops.aten
    N, T, S = shape
    p, energy, grad = (torch.rand(shape, device="cuda") for _ in range(3))
    initial = torch.zeros(N, S, device="cuda")
    initial[:, 0] = 1
    alpha = ops.cuda_alignment(p, initial)
    mass, u, g = (x.reshape(N * T, S) for x in (alpha, energy, grad))
    beta = ops.cuda_lookback(mass, u)
    soft = torch.softmax(energy, -1)
    return {
        "softmax": lambda: torch.softmax(energy, -1),
        "softmax adjoint": lambda: aten._softmax_backward_data(grad, soft, -1, torch.float32),
        "alignment": lambda: ops.cuda_alignment(p, initial),
        "alignment adjoint": lambda: ops.cuda_alignment_adjoint(grad, p, initial, alpha),
        "lookback": lambda: ops.cuda_lookback(mass, u),
        "lookback adjoint": lambda: ops.cuda_lookback_adjoint(g, u, beta),
        f"chunk {CHUNK}": lambda: ops.cuda_chunkwise(mass, u, CHUNK),
        f"chunk {CHUNK} adjoint": lambda: ops.cuda_chunkwise_adjoint(g, mass, u, CHUNK),
    }


def from_python(shape: Shape) -> dict[str, Callable[[], object]]:
    """Forward and backward through autograd."""
    p, energy = (torch.rand(shape, device="cuda", requires_grad=True) for _ in range(2))
    grad = torch.rand(shape, device="cuda")

    def both(backend: str) -> object:
        alpha = expected_alignment(p, backend=backend)
        beta = expected_attention(alpha, energy, backend=backend)
        return torch.autograd.grad(beta, (p, energy), grad)

    return {
        "softmax": lambda: torch.autograd.grad(torch.softmax(energy, -1), energy, grad),
        "alpha + beta": lambda: both("cuda"),
        "alpha + beta, reference": lambda: both("reference"),
    }


def measure(shape: Shape, bandwidth: float, repeats: int) -> list[Row]:
    elements = shape[0] * shape[1] * shape[2]
    launches = 20 if elements < 2**22 else 4
    rows: list[Row] = []
    for name, run in kernels(shape).items():
        ms = kernel_milliseconds(run, repeats, launches)
        rate = BYTES[name] * elements / (1e-3 * ms)
        rows.append(row(shape, name, ms, f"{rate / 1e12:.3f}", f"{rate / bandwidth:.0%}"))
        print(*rows[-1].values(), flush=True)
    for name, run in from_python(shape).items():
        if "reference" not in name:
            rows.append(row(shape, f"{name}, from Python", milliseconds(run, repeats, 5)))
        elif shape == SHAPES[0]:
            rows.append(row(shape, f"{name}, from Python", milliseconds(run, 2)))
    return rows


def row(shape: Shape, name: str, ms: float, rate: str = "", share: str = "") -> Row:
    return {"shape": str(shape), "what": name, "ms": f"{ms:.4f}", "TB/s": rate, "of copy": share}


def tune(bandwidth: float, repeats: int) -> list[Row]:
    """The same kernels with other launch options, to choose the best for `simulmt.ops.cuda`."""
    rows: list[Row] = []
    for shape in ((4096, 50, 50), (1024, 100, 100), (512, 50, 512)):
        elements = shape[0] * shape[1] * shape[2]
        for per_warp in (64, 128, 256, 512):
            for stages in (1, 3, 5):
                cuda.PER_WARP, cuda.STAGES = per_warp, stages
                for name, run in kernels(shape).items():
                    if name.startswith("align") or (stages == 1 and name.startswith("look")):
                        ms = kernel_milliseconds(run, repeats, 4)
                        rate = BYTES[name] * elements / (1e-3 * ms)
                        what = f"{name}, PER_WARP={per_warp}, STAGES={stages}"
                        share = f"{rate / bandwidth:.0%}"
                        rows.append(row(shape, what, ms, f"{rate / 1e12:.3f}", share))
                        print(*rows[-1].values(), flush=True)
    return rows


def write(rows: list[Row], checks: list[str], heading: str, output: Path) -> None:
    columns = list(rows[0])
    table = [columns, ["---"] * len(columns), *([str(x) for x in r.values()] for r in rows)]
    lines = [heading, "", *("| " + " | ".join(line) + " |" for line in table), ""]
    lines += ["Differences from the reference in float64:", "", *(f"- {x}" for x in checks)]
    output.parent.mkdir(parents=True, exist_ok=True)
    Path(f"{output}.md").write_text("\n".join(lines) + "\n")
    with Path(f"{output}.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, columns)
        writer.writeheader()
        writer.writerows(rows)


def train(output: Path) -> None:
    """Time training steps."""
    import gpu_steps  # noqa: PLC0415  # needs hydra-core
    from frame import REPEATS, show  # noqa: PLC0415

    found = gpu_steps.measure(REPEATS)
    show(found)
    with Path(f"{output}.md").open("a") as file:
        file.write("\nTraining steps:\n\n")
        file.writelines(f"- {' | '.join(result.cells)}\n" for result in found)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", type=Path, default=Path("gpu"), help="PATH.md and PATH.csv")
    parser.add_argument("--repeats", type=int, default=20, help="timed runs (default: 20)")
    parser.add_argument("--tune", action="store_true", help="also time other launches (minutes)")
    arguments = parser.parse_args()
    if not torch.cuda.is_available():
        sys.exit("benchmarks/gpu.py needs a GPU that PyTorch can use; there is none here")
    obstacle = cuda.obstacle("cuda", 1)
    if obstacle:
        sys.exit(f"backend='cuda' {obstacle}")
    torch.manual_seed(0)
    began = time.perf_counter()
    checks = check()
    bandwidth = copy_bandwidth(arguments.repeats)
    versions = f"{torch.cuda.get_device_name()}, torch {torch.__version__}"
    heading = f"{versions}; a copy moves {bandwidth / 1e12:.2f} TB/s"
    rows: list[Row] = []
    for shape in SHAPES:
        rows += measure(shape, bandwidth, arguments.repeats)
        write(rows, checks, heading, arguments.output)  # keep what is measured
    if arguments.tune:
        rows += tune(bandwidth, arguments.repeats)
        write(rows, checks, heading, arguments.output)
    if importlib.util.find_spec("hydra") is None:
        print("training steps were not timed: they need hydra-core")
    else:
        train(arguments.output)
    print(f"{arguments.output}.md after {time.perf_counter() - began:.0f} s")


if __name__ == "__main__":
    main()
