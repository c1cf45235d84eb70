"""A checkpoint for each range of latencies, chosen on the development set (Ma et al. 2020)."""

from __future__ import annotations

import csv
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from simulmt.analysis.runs import Run


@dataclass(frozen=True)
class Dev:
    """What the development set said of the checkpoint that was tested."""

    step: int
    bleu: float
    latency: float


def tested_checkpoint(folder: Path, run: Run, latency: str, unit: str) -> Dev | None:
    """Development figures of a run's best checkpoint, from `metrics.csv`.

    It is the first validation with the highest `valid/selection` (`conf/trainer`). None if the
    weights were averaged, as the mean was never validated, or if nothing is on record.

    Args:
        folder: that was searched.
        run: one of its runs.
        latency: such as DAL.
        unit: `word` or `subword`.
    """
    names = ("valid/selection", "step", "valid/BLEU", f"valid/{unit}/{latency}")
    if int(run.options.get("trainer.average", 1)) > 1:
        return None
    found = []
    try:
        with (folder / run.folder / "metrics.csv").open(newline="", encoding="utf-8") as file:
            for row in csv.DictReader(file):
                if row.get(names[0]):
                    found.append([float(row.get(name) or math.nan) for name in names])
    except (OSError, ValueError, TypeError, csv.Error):
        return None
    valid = [values for values in found if not any(map(math.isnan, values))]
    if not valid:
        return None
    _, step, bleu, value = max(valid, key=lambda values: values[0])  # the first of equal ones
    return Dev(int(step) + 1, bleu, value)


def select_runs(
    runs: Sequence[Run], names: Mapping[str, str], dev: Mapping[str, Dev],
    ranges: Sequence[tuple[float, float]], latency: str, unit: str,
) -> list[dict[str, Any]]:  # fmt: skip
    """For each mechanism and range the run with the best development BLEU, and its test scores.

    All is counted by the convention `paper`, as validation is.

    Args:
        runs: all of them; those that read the whole sentence first have nothing to choose.
        names: what each is called, by folder.
        dev: their development figures, by folder.
        ranges: of development latency, least and most, both included.
        latency: what the ranges are of, such as DAL.
        unit: its unit.

    Returns:
        A row for each mechanism (and model, if there are several) and range. Where there is no run
        in it, the figures are None.
    """
    several = len({run.model for run in runs}) > 1
    rows = []
    for kind in dict.fromkeys((run.mechanism, run.model) for run in runs):
        alike = [r for r in runs if (r.mechanism, r.model) == kind and not r.trait("offline")]
        system = " ".join(kind if several else kind[:1])
        for least, most in ranges if alike else ():
            known = [run for run in alike if run.folder in dev]
            inside = [run for run in known if least <= dev[run.folder].latency <= most]
            best = max(inside, key=lambda run: dev[run.folder].bleu, default=None)
            figures = _figures(best, names, dev, latency, unit)
            rows.append({"system": system, "least": least, "most": most, **figures})
    return rows


def with_empty_ranges_together(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """For reading: a system's ranges without a run in one row, below the others; with `range`."""
    found: list[dict[str, Any]] = []
    for system in dict.fromkeys(row["system"] for row in rows):
        own = [{"range": f"{r['least']:g} to {r['most']:g}", **r} for r in rows
               if r["system"] == system]  # fmt: skip
        empty = [row for row in own if row["run"] is None]
        found += [row for row in own if row["run"] is not None]
        if empty:
            found.append({**empty[0], "range": ", ".join(row["range"] for row in empty)})
    return found


def _figures(
    best: Run | None, names: Mapping[str, str], dev: Mapping[str, Dev], latency: str, unit: str
) -> dict[str, Any]:  # fmt: skip
    keys = ("run", "step", "dev_BLEU", f"dev_{latency}", "test_BLEU", f"test_{latency}", "folder")
    if best is None:
        return dict.fromkeys(keys)
    own = dev[best.folder]
    test = float(best.figures()["BLEU"]), best.latency(latency, unit)
    values = (names[best.folder], own.step, own.bleu, own.latency, *test, best.folder)
    return dict(zip(keys, values, strict=True))
