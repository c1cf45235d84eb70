"""Training steps on a GPU: monotonic attention against soft, RNMT+ against torch's LSTMs.

    PYTHONPATH=src python benchmarks/gpu_steps.py [--repeats 7]

Measures the same as `training.py` and `recurrent.py` on the CPU, but with larger batches, in wall
time, and waits until the GPU has finished. `gpu.py` runs this last. It needs hydra-core in addition
to the packages of `gpu.py`.
"""

from __future__ import annotations

import sys
import time

import recurrent
import torch
from frame import Result, alone, in_turns, ratios, summed_up
from steps import Step, batch, model, settings, step, vocabulary

TOKENS = 8000
SIZES = {"transformer_multi30k": "multi30k_deen", "transformer_iwslt15": "iwslt15_envi"}
LENGTHS = (25, 60, 200)
TARGETS = {"mma_il": 1.25, "mma_h": 1.15, "wait_k": 1.15}
"""Limits on the time of a step, relative to `soft`."""
MEMORY, RECURRENT = 1.5, 3.0


def finished(run: Step, device: str) -> Step:
    """A step that ends when the device has finished."""

    def both() -> None:
        run()
        if device == "cuda":
            torch.cuda.synchronize()

    return both


def peak_bytes(run: Step) -> int:
    """The peak memory of a step on the GPU, above the memory in use before."""
    held = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    run()
    return torch.cuda.max_memory_allocated() - held


def transformer(size: str, length: int, tokens: int, device: str) -> dict[str, Step]:
    """A step for each mechanism, on the same batch."""
    torch.manual_seed(length)
    config = settings(size, SIZES[size], "soft")
    given = batch(tokens, length, vocabulary(config), device)
    steps = {}
    for name in ("soft", *TARGETS):
        config = settings(size, SIZES[size], name)
        steps[name] = finished(step(model(config).to(device), config, given), device)
    return steps


def of_size(size: str, tokens: int, device: str, repeats: int) -> list[Result]:
    results, memory = [], dict[str, list[float]]()
    name = size.removeprefix("transformer_")
    for length in LENGTHS:
        steps = transformer(size, length, tokens, device)
        times = in_turns(steps, repeats, time.perf_counter)
        peaks = {who: peak_bytes(run) for who, run in steps.items()} if device == "cuda" else {}
        for who, most in TARGETS.items():
            against = ratios(times[who], times["soft"])
            what = f"{who}, {name}, {length} tokens: times as long as soft"
            results.append(summed_up("training step", what, against, most=most))
            if peaks:
                memory.setdefault(who, []).append(peaks[who] / peaks["soft"])
    for who, found in memory.items():
        what = f"{who}, {name}: memory, times that of soft, worst length"
        results.append(summed_up("peak memory", what, [max(found)], most=MEMORY))
    return results


def rnmt_plus(tokens: int, device: str, repeats: int) -> Result:
    steps = recurrent.contestants(tokens, recurrent.LENGTH, device=device)
    steps = {name: finished(run, device) for name, run in steps.items()}
    times = in_turns(steps, repeats, time.perf_counter)
    what = "RNMT+ of MILk: times as long as with torch.nn.LSTM"
    return summed_up("training step", what, ratios(times["ours"], times["torch"]), most=RECURRENT)


def measure(repeats: int, tokens: int = TOKENS, device: str = "cuda") -> list[Result]:
    results = [one for size in SIZES for one in of_size(size, tokens, device, repeats)]
    return [*results, rnmt_plus(tokens, device, repeats)]


if __name__ == "__main__":
    if not torch.cuda.is_available():
        sys.exit("benchmarks/gpu_steps.py needs a GPU that PyTorch can use; there is none here")
    alone(measure, __doc__)
