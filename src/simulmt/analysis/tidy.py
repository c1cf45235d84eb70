"""Rows of a report as CSV files, the same bytes for the same rows."""

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
    """Return the lines of `curves.csv`: the options of each run, its scores, its comparisons.

    Args:
        runs: at least one.
        resampled: their BLEU, by folder; a run that is not there has no interval.
        latencies: for which there is a Pareto front.
        unit: of them.
        convention: whose figures.
    """
    paper = convention == "paper"
    suffix = "" if paper else f"_{convention}"
    fronts = {name: on_front(runs, name, unit, convention) for name in latencies}
    columns = [*runs[0].row(), *_OWN_COLUMN]
    others = [k for k in differing(runs) if k.removeprefix("mechanism.") not in columns]
    rows: list[Row] = []
    for run in runs:
        row = run.row(convention)
        own = resampled.get(run.folder)
        low, high = own.interval if own else (None, None)
        signature = f"bs:{len(own.samples)}|seed:{SEED}" if own else None
        row |= {f"BLEU_low{suffix}": low, f"BLEU_high{suffix}": high, "resampling": signature}
        row[f"offline_BLEU{suffix}"] = offline_bleu(run, runs, convention)
        row |= {f"front_{name}": run.folder in fronts[name] for name in fronts}
        rows.append(row | {key: run.option(key) for key in others})
    return rows


def write_rows(
    rows: Sequence[Mapping[str, object]], path: Path, columns: Sequence[str] | None = None
) -> Path:
    """Write rows in full precision, and return the path; `columns` are the heads without rows."""
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, columns or list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    return path
