"""All speed targets of the project: one table, measured in one run.

    python benchmarks/suite.py [--repeats 7] [--output benchmarks/results]

Writes the table in Markdown and in JSON, with the machine, the versions and the date. Every figure
is a ratio of contestants that ran in turns, or a time or an amount of memory. Missed targets are
marked.
"""

from __future__ import annotations

import argparse
import datetime
import importlib.metadata
import json
import math
import os
import platform
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import ddp
import decoding
import future_guided
import generation
import growth
import guard
import intervals
import likelihood
import ops
import overlap
import pipeline
import pretrained
import recurrent
import start
import training
from frame import COLUMNS, REPEATS, ROOT, Measure, Result, show

from simulmt.programs.provenance import processor

SUBJECTS: dict[str, Measure] = {
    "ops": ops.measure,
    "likelihood": likelihood.measure,
    "training": training.measure,
    "future_guided": future_guided.measure,
    "recurrent": recurrent.measure,
    "decoding": decoding.measure,
    "generation": lambda repeats: generation.measure(max(1, repeats // 2)),
    "live reads": lambda repeats: pretrained.measure(max(1, repeats // 2)),
    "growth": growth.measure,
    "guard": guard.measure,
    "start": start.measure,
    "pipeline": pipeline.measure,
    "report": lambda repeats: intervals.measure(max(1, repeats // 2)),
    "ddp": lambda repeats: ddp.measure(max(1, repeats // 3)),
    "overlap": lambda repeats: overlap.measure(),
}
PACKAGES = ("torch", "numba", "numpy", "pytorch-lightning", "sentencepiece")


def machine() -> str:
    """The name of the processor, if known, and the number of usable cores."""
    return f"{processor()}, {len(os.sched_getaffinity(0))} cores"


def circumstances(seconds: float) -> dict[str, str]:
    """The machine, the versions, the date and the duration."""
    versions = [f"{name} {importlib.metadata.version(name)}" for name in PACKAGES]
    return {
        "machine": machine(),
        "versions": ", ".join([f"Python {platform.python_version()}", *versions]),
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "load before": f"{os.getloadavg()[0]:.1f}",
        "took": f"{seconds / 60:.1f} minutes",
    }


def write(results: Sequence[Result], about: dict[str, str], output: Path) -> None:
    """Write both files; a figure that could not be measured is null in JSON."""
    aimed = [result for result in results if result.target]
    missed = sum(not result.met for result in aimed)
    rows = [COLUMNS, ("---",) * len(COLUMNS), *(result.cells for result in results)]
    lines = ["# Speed against its targets", ""]
    lines += [f"- {name}: {value}" for name, value in about.items()]
    lines += [f"- {len(aimed) - missed} met, {missed} missed", ""]
    lines += ["| " + " | ".join(row) + " |" for row in rows]
    output.with_suffix(".md").write_text("\n".join(lines) + "\n", encoding="utf-8")
    found = [
        {
            name: None if isinstance(value, float) and math.isnan(value) else value
            for name, value in result._asdict().items()
        }
        | {"met": result.met}
        for result in results
    ]
    text = json.dumps({**about, "results": found}, indent=2, allow_nan=False)
    output.with_suffix(".json").write_text(text + "\n", encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument(
        "--repeats", type=int, default=REPEATS, help="rounds (default: %(default)s)"
    )
    parser.add_argument("--output", type=Path, help="default: results, if all are measured")
    parser.add_argument("--only", nargs="+", choices=SUBJECTS, default=[*SUBJECTS], metavar="NAME")
    given = parser.parse_args()
    began, load = time.perf_counter(), f"{os.getloadavg()[0]:.1f}"
    results = []
    for name in given.only:
        print(f"{name} after {time.perf_counter() - began:.0f} s", file=sys.stderr, flush=True)
        results += SUBJECTS[name](given.repeats)
    show(results)
    about = circumstances(time.perf_counter() - began) | {"load before": load}
    if given.output or [*given.only] == [*SUBJECTS]:
        write(results, about, given.output or ROOT / "benchmarks" / "results")


if __name__ == "__main__":
    main()
