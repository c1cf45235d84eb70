"""How the time of operators grows with each dimension, and that of a training step with tokens.

    python benchmarks/growth.py [--repeats 7]

The exponent is the slope of a straight line through the logarithms of sizes and times, fitted to
each round. The operator is timed forward and backward. The step is that of `mma_il` at the size for
Multi30k with sentences of 25 subwords. All run on one CPU thread.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
from frame import Result, alone, in_turns, one_thread, summed_up
from ops import forms
from steps import batch, model, settings, step, vocabulary

SIZES = (64, 128, 256, 512)
OTHERS = 128  # the size of the fixed dimensions; large enough that the cost of calls is small
TOKENS = (500, 1000, 2000, 4000)
LENGTH = 25
TARGET = {"least": 0.9, "most": 1.1}


def exponents(runs: Mapping[int, Callable[[], object]], repeats: int) -> list[float]:
    """The exponent of each round."""
    times = in_turns({str(size): run for size, run in runs.items()}, repeats)
    logs = np.log([*times.values()])  # (sizes, rounds)
    return [float(slope) for slope in np.polyfit(np.log([*runs]), logs, 1)[0]]


def operators(repeats: int) -> list[Result]:
    results = []
    for place, name in enumerate(("B·H", "T", "S")):
        runs = {}
        for size in SIZES:
            shape = [OTHERS] * 3
            shape[place] = size
            runs[size] = forms((shape[0], shape[1], shape[2]))["ours"]
        what = f"alpha + beta with {name} from {SIZES[0]} to {SIZES[-1]}: exponent"
        results.append(summed_up("growth", what, exponents(runs, repeats), unit="", **TARGET))
    return results


def training_step(repeats: int) -> Result:
    config = settings("transformer_multi30k", "multi30k_deen", "mma_il")
    network = model(config)
    runs = {
        tokens: step(network, config, batch(tokens, LENGTH, vocabulary(config)))
        for tokens in TOKENS
    }
    what = f"training step with {TOKENS[0]} to {TOKENS[-1]} tokens: exponent"
    return summed_up("growth", what, exponents(runs, repeats), unit="", **TARGET)


def measure(repeats: int) -> list[Result]:
    one_thread()
    return [*operators(repeats), training_step(repeats)]


if __name__ == "__main__":
    alone(measure, __doc__)
