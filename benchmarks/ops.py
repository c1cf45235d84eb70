"""Time of expected alignment and attention, forward and backward, on one CPU thread.

    python benchmarks/ops.py [--output results.json] [--repeats 15]

Ours, the clamped closed form that most implementations use, and a softmax of the same shape, in
one run. The closed form is timed as the yardstick of speed only: its results are wrong. Like
those implementations it takes its rows one by one out of whole tensors, and so pays T times for a
gradient of the whole tensor; at T = 200 that, and not arithmetic, is most of its time.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable
from pathlib import Path

import torch
from rich.console import Console
from rich.table import Table
from torch import Tensor

from simulmt.ops import expected_alignment, expected_attention

SHAPES = [(64, 30, 30), (256, 30, 30), (256, 60, 60), (64, 200, 200)]
EPSILON = 1e-10


def closed_alignment(p: Tensor) -> Tensor:
    going = torch.exp(torch.cumsum(torch.log((1 - p).clamp(EPSILON, 1)), dim=-1))
    arriving = torch.cat([torch.ones_like(going[..., :1]), going[..., :-1]], dim=-1)
    divisor = arriving.clamp(EPSILON, 1)
    above = torch.zeros_like(p[:, 0])
    above[:, 0] = 1
    rows = []
    for i in range(p.shape[1]):
        reached = arriving[:, i] * torch.cumsum(above / divisor[:, i], dim=-1)
        above = (p[:, i] * reached).clamp(0, 1)
        rows.append(above)
    return torch.stack(rows, dim=1)


def closed_attention(alpha: Tensor, energy: Tensor) -> Tensor:
    weight = torch.exp(energy - energy.amax(-1, keepdim=True)) + EPSILON
    share = alpha / torch.cumsum(weight, dim=-1).clamp(min=EPSILON)
    from_the_right = torch.cumsum(share.flip(-1), dim=-1).flip(-1)
    return (weight * from_the_right).clamp(0, 1)


def milliseconds(run: Callable[[], Tensor], inputs: list[Tensor], repeats: int) -> float:
    """Median of forward + backward, after two runs to warm up."""
    grad = torch.randn_like(inputs[0])
    times = []
    for _ in range(repeats + 2):
        for x in inputs:
            x.grad = None
        start = time.perf_counter()
        run().backward(grad)
        times.append(1e3 * (time.perf_counter() - start))
    return statistics.median(times[2:])


def measure(shape: tuple[int, int, int], repeats: int) -> dict[str, float]:
    p, energy = torch.rand(shape).requires_grad_(), torch.randn(shape).requires_grad_()
    few = max(7, repeats // 2)  # the closed form takes long and varies little
    return {
        "softmax": milliseconds(lambda: torch.softmax(energy, -1), [energy], repeats),
        "alpha": milliseconds(lambda: expected_alignment(p), [p], repeats),
        "alpha_closed": milliseconds(lambda: closed_alignment(p), [p], few),
        "both": milliseconds(
            lambda: expected_attention(expected_alignment(p), energy), [p, energy], repeats
        ),
        "both_closed": milliseconds(
            lambda: closed_attention(closed_alignment(p), energy), [p, energy], few
        ),
    }


def table(results: dict[str, dict[str, float]]) -> Table:
    view = Table(title="forward + backward, one thread, median ms (ratio: times as long as ours)")
    view.add_column("(B*H, T, S)")
    for name in (
        "softmax",
        "alpha",
        "closed",
        "ratio",
        "alpha+beta",
        "closed",
        "ratio",
        "/softmax",
    ):
        view.add_column(name, justify="right")
    for shape, ms in results.items():
        view.add_row(
            shape,
            f"{ms['softmax']:.2f}",
            f"{ms['alpha']:.2f}",
            f"{ms['alpha_closed']:.1f}",
            f"{ms['alpha_closed'] / ms['alpha']:.0f}x",
            f"{ms['both']:.2f}",
            f"{ms['both_closed']:.1f}",
            f"{ms['both_closed'] / ms['both']:.0f}x",
            f"{ms['both'] / ms['softmax']:.1f}",
        )
    return view


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", type=Path, help="write the medians as JSON to this file")
    parser.add_argument("--repeats", type=int, default=15, help="timed runs (default: 15)")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    results = {str(shape): measure(shape, arguments.repeats) for shape in SHAPES}
    Console(width=100).print(table(results))
    if arguments.output:
        arguments.output.write_text(json.dumps(results, indent=2) + "\n")


if __name__ == "__main__":
    main()
