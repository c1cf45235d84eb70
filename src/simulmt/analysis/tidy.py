"""Rows of a report as CSV files; the same rows give the same bytes."""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from pathlib import Path

from simulmt.analysis.intervals import SEED, Resampled
from simulmt.analysis.names import differing
from simulmt.analysis.points import offline_bleu, on_front
from simulmt.analysis.runs import Row, Run

_OWN_COLUMN = ("name", "model.name", "data.name")


def curve_rows(
    runs: Sequence[Run], resampled: Mapping[str, Resampled], latencies: Sequence[str],
    unit: str, convention: str,
) -> list[Row]:  # fmt: skip
    """Return the lines of `curves.csv`: the options, scores and comparisons of each run.

    Args:
        runs: The runs, at least one.
        resampled: The resampled BLEU of each run, by folder; other runs have no interval.
        latencies: The latencies for which a column says whether the run is on the Pareto front.
        unit: The unit of these latencies.
        convention: The convention of the figures.
    """
    suffix = "" if convention == "paper" else f"_{convention}"
    fronts = {name: on_front(runs, name, unit, convention) for name in latencies}
    columns = [*runs[0].row(), *_OWN_COLUMN]
    options = [k for k in differing(runs) if k.removeprefix("mechanism.") not in columns]
    rows: list[Row] = []
    for run in runs:
        bleu = resampled.get(run.folder)
        low, high = bleu.interval if bleu else (None, None)
        rows.append({
            **run.row(convention),
            f"BLEU_low{suffix}": low,
            f"BLEU_high{suffix}": high,
            "resampling": f"bs:{len(bleu.samples)}|seed:{SEED}" if bleu else None,
            f"offline_BLEU{suffix}": offline_bleu(run, runs, convention),
            **{f"front_{name}": run.folder in front for name, front in fronts.items()},
            **{key: run.option(key) for key in options},
        })  # fmt: skip
    return rows


def cost_rows(runs: Sequence[Run]) -> list[Row]:
    """Return the lines of `cost.csv`: figures that another machine or another day would change."""
    return [
        {"folder": run.folder, "training_seconds": run.training.seconds,
         "training_tokens_per_s": run.training.tokens_per_second, "threads": run.training.threads,
         "processes": run.training.processes, "device": run.training.device}
        for run in runs
        if not run.turned
    ]  # fmt: skip


def write_rows(
    rows: Sequence[Mapping[str, object]], path: Path, columns: Sequence[str] = ()
) -> Path:
    """Write rows in full precision and return the path; without rows, `columns` are the heads."""
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, columns or list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    return path
