"""A checkpoint for each range of latencies, chosen on the development set (Ma et al. 2020)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from simulmt.analysis.runs import Row, Run
from simulmt.errors import UserError
from simulmt.run_directory import read_columns


@dataclass(frozen=True)
class Dev:
    """The development figures of the checkpoint that was tested."""

    step: int
    bleu: float
    latency: float


def tested_checkpoint(folder: Path, run: Run, latency: str, unit: str) -> Dev | None:
    """Return the development figures of a run's best checkpoint.

    The best checkpoint is the first validation with the highest `valid/selection` (`conf/trainer`).
    None for averaged weights, which were never validated, and without metrics.

    Args:
        folder: the folder that was searched.
        run: one of its runs.
        latency: such as DAL.
        unit: `word` or `subword`.
    """
    names = ("valid/selection", "step", "valid/BLEU", f"valid/{unit}/{latency}")
    if int(run.options.get("trainer.average", 1)) > 1:
        return None
    try:
        rows = read_columns(folder / run.home, *names)
    except UserError:
        return None
    valid = [values for values in rows if not any(map(math.isnan, values))]
    if not valid:
        return None
    _, step, bleu, value = max(valid, key=lambda values: values[0])  # the first of equal ones
    return Dev(int(step) + 1, bleu, value)


def select_runs(
    runs: Sequence[Run], names: Mapping[str, str], dev: Mapping[str, Dev],
    ranges: Sequence[tuple[float, float]], latency: str, unit: str,
) -> list[Row]:  # fmt: skip
    """Return, for each mechanism and range, the run with the best development BLEU.

    All figures are by the convention `paper`, as validation is.

    Args:
        runs: all runs; those that read the whole sentence first are not selected from.
        names: the name of each run, by folder.
        dev: the development figures, by folder; runs without them are not selected from.
        ranges: of development latency, least and most, both included.
        latency: the latency of the ranges, such as DAL.
        unit: its unit.

    Returns:
        A row for each mechanism (and model, if there are several) and range, with the test scores
        of the run. Without a run in the range, the figures are None.
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


def with_empty_ranges_together(rows: Sequence[Row]) -> list[Row]:
    """Return rows to read, with `range`: a system's ranges without a run are one, the last."""
    together: list[Row] = []
    for system in dict.fromkeys(row["system"] for row in rows):
        own = [{"range": f"{r['least']:g} to {r['most']:g}", **r} for r in rows
               if r["system"] == system]  # fmt: skip
        empty = [row for row in own if row["run"] is None]
        together += [row for row in own if row["run"] is not None]
        if empty:
            together.append({**empty[0], "range": ", ".join(str(row["range"]) for row in empty)})
    return together


def _figures(
    best: Run | None, names: Mapping[str, str], dev: Mapping[str, Dev], latency: str, unit: str
) -> Row:
    keys = ("run", "step", "dev_BLEU", f"dev_{latency}", "test_BLEU", f"test_{latency}", "folder")
    if best is None:
        return dict.fromkeys(keys)
    own, test = dev[best.folder], (best.bleu(), best.latency(latency, unit))
    values = (names[best.folder], own.step, own.bleu, own.latency, *test, best.folder)
    return dict(zip(keys, values, strict=True))
