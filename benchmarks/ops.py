"""Time of the training operators, forward and backward, on one CPU thread.

    python benchmarks/ops.py [--repeats 7]

For expected alignment and attention the contestants are our operator (from logits, with the
sigmoid), the clamped closed form that most implementations use, and a softmax of the same shape.
The closed form serves as a yardstick of speed only: its results are wrong. As in those
implementations, it takes rows out of whole tensors one by one, and so computes a gradient of the
whole tensor T times. At T = 200 that, not arithmetic, takes most of its time.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from frame import Result, alone, in_turns, one_thread, ratios, summed_up
from torch import Tensor

from simulmt.ops import expected_alignment_and_attention

Shape = tuple[int, int, int]
TARGETS: dict[Shape, float] = {
    (64, 30, 30): 5,
    (256, 30, 30): 5,
    (256, 60, 60): 12,
    (64, 200, 200): 40,
}
"""(B·H, T, S), and the least time of the closed form, relative to our operator."""
SOFTMAX = 6.0
"""Limit on the time of our operator, relative to a softmax."""
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


def forms(shape: Shape) -> dict[str, Callable[[], object]]:
    """A function for each contestant that runs it forward and backward."""
    p, energy = torch.rand(shape).requires_grad_(), torch.randn(shape).requires_grad_()
    grad = torch.randn(shape)

    def both(form: Callable[[], Tensor]) -> Callable[[], object]:
        def run() -> None:
            p.grad = energy.grad = None
            torch.autograd.backward(form(), grad)

        return run

    return {
        "softmax": both(lambda: torch.softmax(energy, -1)),
        "ours": both(lambda: expected_alignment_and_attention(p, energy)[1]),
        "closed": both(lambda: closed_attention(closed_alignment(p), energy)),
    }


def measure(repeats: int) -> list[Result]:
    one_thread()
    results = []
    for shape, faster in TARGETS.items():
        contestants = forms(shape)
        short = {name: contestants[name] for name in ("softmax", "ours")}
        close = in_turns(short, 4 * repeats)  # short runs: more repeats
        times = in_turns({name: contestants[name] for name in ("ours", "closed")}, repeats)
        what = f"alpha + beta at {shape}"
        softmax = ratios(close["ours"], close["softmax"])
        closed = ratios(times["closed"], times["ours"])
        results += [
            summed_up("operator", f"{what}, times as long as softmax", softmax, most=SOFTMAX),
            summed_up("operator", f"{what}, faster than the closed form", closed, least=faster),
        ]
    return results


if __name__ == "__main__":
    alone(measure, __doc__)
