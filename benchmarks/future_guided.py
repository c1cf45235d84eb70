"""Training steps of the future-guided incremental Transformer and of its baselines.

    python benchmarks/future_guided.py [--repeats 7] [--output experiments/future_guided/cost.csv]

Every row is a configuration of `train.py` on one batch of artificial sentences of 25 tokens, on one
CPU thread. It gives seconds, and the memory allocated by torch (activations, gradients and scratch
tensors), both also relative to wait-k with a causal encoder. Zhang et al. (2021), table 5, found
1.32 with the average embedding layer and 2.6 with the teacher as well.
"""

from __future__ import annotations

import argparse
import csv
import statistics
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import torch
from frame import REPEATS, Result, configuration, in_turns, one_thread, ratios, show, summed_up
from steps import AFTER_WARM_UP, Step, batch, model, peak_bytes
from torch import nn

from simulmt.attention import Moment
from simulmt.models.vocabulary import Vocabulary
from simulmt.objective.batch import Batch
from simulmt.objective.teacher import Joint
from simulmt.options import Config
from simulmt.parts.builders import build_model, build_objective
from simulmt.programs.teacher import FULL

LENGTH = 25


class Size(NamedTuple):
    """A file of `conf/model`, the target tokens in a batch, and the size of the vocabulary."""

    model: str
    tokens: int
    vocabulary: int


SIZES = [Size("transformer", 2000, 4000), Size("transformer_base", 400, 32000)]
BASELINE = "wait-k"
CONTESTANTS = {
    "soft, unidirectional": ["mechanism=soft", "model.encoder=causal"],
    BASELINE: [],
    "wait-k + AEL": ["model.average_embedding=true"],
    "wait-k + teacher": ["teacher=joint"],
    "wait-k + AEL + teacher": ["model.average_embedding=true", "teacher=joint"],
    "wait-k + AEL + causal teacher": [
        "model.average_embedding=true",
        "teacher=joint",
        "teacher.encoder=causal",
    ],
    "wait-k, bidirectional re-encoding": ["model.encoder=reencoding"],
}
TARGETS = {"wait-k + AEL": 1.15, "wait-k + AEL + teacher": 2.3}
"""Limits on the time of a step, relative to the baseline."""
COLUMNS = ("model", "system", "seconds", "times", "times_low", "times_high", "memory_MiB", "memory")


def joint(config: Config, vocabulary: Vocabulary) -> Joint | None:
    """The teacher of a configuration; None without one."""
    options = dict(config["teacher"])
    if options.pop("kind") == "none":
        return None
    own = {k: v for k, v in config["model"].items() if k != "average_embedding"}
    own["encoder"] = options.pop("encoder")
    return Joint(build_model(own, FULL, vocabulary), **options)


def contestant(size: Size, overrides: list[str], given: Batch) -> Step:
    """Forward, backward and Adam of the student, and of its teacher if it has one."""
    system = [] if any(one.startswith("mechanism=") for one in overrides) else ["mechanism=wait_k"]
    config = configuration(f"model={size.model}", *system, *overrides)
    config["data"]["subwords"]["size"] = size.vocabulary
    student = model(config)
    teacher = joint(config, Vocabulary(size.vocabulary))
    objective = build_objective(config["objective"], teacher)
    both = nn.ModuleList([student, objective]).train()
    adam = torch.optim.Adam(both.parameters(), lr=1e-4, fused=True)
    moment = Moment(AFTER_WARM_UP, AFTER_WARM_UP)

    def run() -> None:
        loss = objective(student, given, moment)
        torch.autograd.backward(loss.total / loss.tokens)
        adam.step()
        adam.zero_grad()

    return run


def rows_of(
    size: Size, repeats: int, contestants: Mapping[str, list[str]] = CONTESTANTS
) -> list[dict[str, Any]]:
    """Time and memory of each contestant."""
    torch.manual_seed(LENGTH)
    given = batch(size.tokens, LENGTH, Vocabulary(size.vocabulary))
    steps = {name: contestant(size, options, given) for name, options in contestants.items()}
    times = in_turns(steps, repeats)
    peaks = {name: peak_bytes(run) for name, run in steps.items()}
    rows = []
    for name in contestants:
        against = summed_up("", "", ratios(times[name], times[BASELINE]))
        figures = (
            size.model, name, statistics.median(times[name]), against.value, against.low,
            against.high, peaks[name] / 2**20, peaks[name] / peaks[BASELINE],
        )  # fmt: skip
        rows.append(dict(zip(COLUMNS, figures, strict=True)))
    return rows


def results(rows: list[dict[str, Any]]) -> list[Result]:
    """The rows that have a target, with the target."""
    return [
        Result(
            "training step", f"{row['system']}, {row['model']}: times as long as {BASELINE}",
            row["times"], row["times_low"], row["times_high"], "x", None, TARGETS[row["system"]],
        )
        for row in rows
        if row["system"] in TARGETS
    ]  # fmt: skip


def write(rows: list[dict[str, Any]], output: Path) -> None:
    """Write the rows with three decimals, which is more than their spread."""
    with output.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        writer.writeheader()
        for row in rows:
            writer.writerow({k: f"{v:.3f}" if isinstance(v, float) else v for k, v in row.items()})


def measure(repeats: int) -> list[Result]:
    """Measure the tiny size; the results that have a target."""
    one_thread()
    wanted = {name: CONTESTANTS[name] for name in (BASELINE, *TARGETS)}
    return results(rows_of(SIZES[0], repeats, wanted))


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--repeats", type=int, default=REPEATS)
    parser.add_argument("--output", type=Path)
    given = parser.parse_args()
    one_thread()
    rows = [row for size in SIZES for row in rows_of(size, given.repeats)]
    for row in rows:
        print(
            f"{row['model']:18} {row['system']:36} {row['seconds']:8.3f} s {row['times']:6.2f} x "
            f"{row['memory_MiB']:8.0f} MiB {row['memory']:6.2f} x"
        )
    show(results(rows))
    if given.output:
        write(rows, given.output)


if __name__ == "__main__":
    main()
