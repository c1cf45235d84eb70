"""Training steps of the Transformer: monotonic attention against soft, soft against its peers.

    python benchmarks/training.py [--repeats 7]

A step is forward, backward and Adam on one batch, on one CPU thread. Contestants differ only in the
mechanism: all have the causal encoder, and `soft` uses torch's fused attention kernel. The peers of
`soft`, `torch.nn.Transformer` and Marian from `transformers`, run their own code from the batch to
the smoothed loss (`peers.py`). Memory is allocated by torch, without parameters and Adam's state.
The products with weights are counted, too: they are the part of a mechanism's surplus that its
equations ask for.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import peers
import torch
from frame import Result, alone, in_turns, one_thread, ratios, summed_up
from steps import Step, batch, model, peak_bytes, settings, step, vocabulary
from torch.utils.flop_counter import FlopCounterMode


class Size(NamedTuple):
    """A file of `conf/model`, the data set it is meant for, and the number of tokens in a batch."""

    model: str
    data: str
    tokens: int
    against_peers: float
    """Limit on the time of a step of `soft`, relative to a peer's."""

    def at(self, length: int) -> str:
        """Size and length in words."""
        return f"{self.model.removeprefix('transformer_')}, {length} tokens"


SIZES = [
    Size("transformer_multi30k", "multi30k_deen", 1000, 0.8),
    Size("transformer_iwslt15", "iwslt15_envi", 300, 0.9),
]
LENGTHS = (25, 60, 200)
BESIDE_PEERS = (25, 60)
"""The lengths at which peers are measured."""
TARGETS: dict[str, tuple[float | None, ...]] = {
    "mma_il": (1.08, 1.10, 1.18),
    "mma_h": (1.05, 1.08, 1.12),
    "wait_k": (1.05, 1.08, 1.12),
    "itst": (1.08, 1.08, None),
    "wait_info": (1.08, 1.08, None),
    "emma": (1.08, 1.08, None),
    "sm2": (2.1, 2.1, None),
    "hmt": (2.5, 2.5, None),
}
"""Limits on the time of a step, relative to `soft`, for each of the lengths."""
MEMORY = {"mma_il": 1.4, "sm2": 2.2, "hmt": 2.2}
"""Limits on the peak memory of a step, relative to `soft`."""
USUAL_MEMORY = 1.5


def contestants(size: Size, length: int) -> dict[str, Step]:
    """A step for each, all on the same batch."""
    made: dict[str, Step] = {}
    torch.manual_seed(length)
    plain = settings(size.model, size.data, "soft")
    given = batch(size.tokens, length, vocabulary(plain))
    for name in ("soft", *TARGETS):
        config = settings(size.model, size.data, name)
        made[name] = step(model(config), config, given)
    return made


def rivals(size: Size, length: int) -> dict[str, Step]:
    """`soft` and its peers, all on the same batch."""
    torch.manual_seed(length)
    config = settings(size.model, size.data, "soft")
    given = batch(size.tokens, length, vocabulary(config))
    smoothing = config["objective"]["label_smoothing"]
    made = {"soft": step(model(config), config, given)}
    for name, peer in peers.PEERS.items():
        made[name] = peer(vocabulary(config).size, config["model"], smoothing, given)
    return made


def against_peers(size: Size, repeats: int) -> list[Result]:
    results = []
    for length in BESIDE_PEERS:
        times = in_turns(rivals(size, length), repeats)
        what, most = f"soft, {size.at(length)}: times as long as", size.against_peers
        results += [
            summed_up(
                "training step", f"{what} {name}", ratios(times["soft"], times[name]), most=most
            )
            for name in times
            if name != "soft"
        ]
        if not peers.HAS_MARIAN:
            absent = f"{what} {peers.MARIAN} ({peers.WITHOUT_MARIAN})"
            results.append(summed_up("training step", absent, [math.nan], most=most))
    return results


def projections(run: Step) -> int:
    """The multiplications of activations with weights in a step; attention is left out."""
    aten = torch.ops.aten
    with FlopCounterMode(display=False) as counter:
        run()
    counts = counter.get_flop_counts()["Global"]
    return sum(counts.get(operator, 0) for operator in (aten.mm, aten.addmm))


def least_work(size: Size) -> list[Result]:
    """How long a step would be if only products with weights took time."""
    counts = {name: projections(run) for name, run in contestants(size, LENGTHS[0]).items()}
    what = f"{size.model.removeprefix('transformer_')}: products with weights, times those of soft"
    return [
        summed_up("training step", f"{name}, {what}", [counts[name] / counts["soft"]])
        for name in TARGETS
    ]


def of_size(size: Size, repeats: int) -> list[Result]:
    results, memory = against_peers(size, repeats) + least_work(size), dict[str, list[float]]()
    for number, length in enumerate(LENGTHS):
        steps = contestants(size, length)
        times = in_turns(steps, repeats)
        peaks = {name: peak_bytes(run) for name, run in steps.items()}
        for name, targets in TARGETS.items():
            against = ratios(times[name], times["soft"])
            what = f"{name}, {size.at(length)}: times as long as soft"
            results.append(summed_up("training step", what, against, most=targets[number]))
            memory.setdefault(name, []).append(peaks[name] / peaks["soft"])
    for name, found in memory.items():
        worst = [max(found)]
        what = f"{name}, {size.model.removeprefix('transformer_')}: memory, times that of soft"
        most = MEMORY.get(name, USUAL_MEMORY)
        results.append(summed_up("peak memory", f"{what}, worst length", worst, most=most))
    return results


def measure(repeats: int) -> list[Result]:
    one_thread()
    return [result for size in SIZES for result in of_size(size, repeats)]


if __name__ == "__main__":
    alone(measure, __doc__)
