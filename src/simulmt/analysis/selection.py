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
        folder: The folder that was searched for runs.
        run: A run below this folder.
        latency: A latency of the convention `paper`, such as DAL.
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

    All figures are by the convention `paper`, as validation is. Runs that read the whole sentence
    first, and runs without development figures, are not selected.

    Args:
        runs: All runs.
        names: The name of each run, by folder.
        dev: The development figures, by folder.
        ranges: The least and the greatest development latency of each range, both included.
        latency: The latency of the ranges, such as DAL.
        unit: The unit of the latency.

    Returns:
        A row for each mechanism (and model, if there are several) and range, with the test scores
        of the run. Without a run in the range, the figures are None.
    """
    several = len({run.model for run in runs}) > 1
    systems: dict[tuple[str, str], list[Run]] = {}
    for run in runs:
        if not run.traits.offline:
            systems.setdefault((run.mechanism, run.model), []).append(run)
    keys = ("run", "step", "dev_BLEU", f"dev_{latency}", "test_BLEU", f"test_{latency}", "folder")
    rows = []
    for kind, alike in systems.items():
        for least, most in ranges:
            row: Row = {"system": " ".join(kind[: 1 + several]), "least": least, "most": most}
            rows.append(row | dict.fromkeys(keys))
            known = [(dev[run.folder], run) for run in alike if run.folder in dev]
            inside = [pair for pair in known if least <= pair[0].latency <= most]
            if inside:
                own, best = max(inside, key=lambda pair: pair[0].bleu)
                test = (best.bleu(), best.latency(latency, unit))
                figures = (names[best.folder], own.step, own.bleu, own.latency, *test, best.folder)
                rows[-1] |= dict(zip(keys, figures, strict=True))
    return rows


def with_empty_ranges_together(rows: Sequence[Row]) -> list[Row]:
    """Return rows with a column `range`; the ranges of a system without a run share a last row."""
    together: list[Row] = []
    for system in dict.fromkeys(row["system"] for row in rows):
        own = [{"range": f"{r['least']:g} to {r['most']:g}", **r} for r in rows
               if r["system"] == system]  # fmt: skip
        empty = [row for row in own if row["run"] is None]
        together += [row for row in own if row["run"] is not None]
        if empty:
            together.append({**empty[0], "range": ", ".join(str(row["range"]) for row in empty)})
    return together
