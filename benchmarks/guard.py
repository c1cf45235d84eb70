"""The cost of the guard against NaN and infinity in a training step.

    python benchmarks/guard.py [--repeats 7]

Both contestants clip the gradient and step with fused Adam. One of them also checks the loss and
the norm, and makes Adam skip the update if they are not finite.
"""

from __future__ import annotations

import torch
from frame import Result, alone, in_turns, one_thread, ratios, summed_up
from steps import AFTER_WARM_UP, Step, batch, model, settings, vocabulary

from simulmt.objective import LatencyAugmented
from simulmt.parts.builders import build_objective
from simulmt.training.finite import FiniteUpdates

SIZES = {"transformer": ("verbfinal", 12), "transformer_multi30k": ("multi30k_deen", 25)}
CLIP = 5.0
STEPS = 3  # of a measurement


def contestant(size: str, data: str, length: int, guarded: bool) -> Step:
    config = settings(size, data, "mma_il")
    network, objective = model(config), build_objective(config["objective"])
    assert isinstance(objective, LatencyAugmented)
    torch.manual_seed(length)
    given = batch(1000, length, vocabulary(config))
    adam = torch.optim.Adam(network.parameters(), lr=1e-4, fused=True)
    guard = FiniteUpdates(skip=0)
    network.train()

    def run() -> None:
        for _ in range(STEPS):
            out = network(given.source, given.source_mask, given.target_input)
            loss = objective.loss(out, given, AFTER_WARM_UP)
            mean = loss.total / loss.tokens
            torch.autograd.backward(mean)
            norm = torch.nn.utils.clip_grad_norm_(network.parameters(), CLIP)
            if guarded:
                adam.found_inf = guard.found_inf(1, mean.detach(), norm)  # type: ignore[attr-defined]
            adam.step()
            adam.zero_grad()

    return run


def measure(repeats: int) -> list[Result]:
    one_thread()
    results = []
    for size, (data, length) in SIZES.items():
        steps = {
            name: contestant(size, data, length, name == "guard") for name in ("guard", "bare")
        }
        times = in_turns(steps, 4 * repeats)
        what = f"mma_il, {data}, {length} tokens: times as long as without"
        results.append(
            summed_up("guard against NaN", what, ratios(times["guard"], times["bare"]), most=1.01)
        )
    return results


if __name__ == "__main__":
    alone(measure, __doc__)
