"""A checkpoint for each range of latencies, chosen on the development set (Ma et al. 2020)."""

import math
from collections.abc import Mapping, Sequence
from itertools import product
from operator import itemgetter
from pathlib import Path

from simulmt.analysis.runs.run import Row, Run
from simulmt.analysis.tables.titles import title
from simulmt.files.metrics import read_columns


def select_runs(
    folder: Path,
    runs: Sequence[Run],
    names: Mapping[str, str],
    latency: str,
    ranges: Sequence[Sequence[float]],
) -> tuple[list[Row], list[str]]:
    """Return, for each mechanism and range, the run with the best development BLEU.

    All figures are by the convention `paper`, as validation is. Runs that read the whole sentence
    first, runs without development figures, and further decodings are not selected.

    Args:
        folder: The folder of the run directories.
        runs: All runs.
        names: The name of each run, by folder.
        latency: The latency of the ranges, such as DAL.
        ranges: The least and the greatest development latency of each range, both included.

    Returns:
        A row for each mechanism (and model, if there are several) and range, with the test scores
        of the run, which are None without a run in the range; and the names of the runs without
        development figures.
    """
    # validation does not turn dials
    trained = [run for run in runs if not run.is_decoding and not run.foreign]
    dev = {run.folder: d for run in trained if (d := _tested_checkpoint(folder, run, latency))}
    several = len({run.model for run in trained}) > 1
    systems: dict[str, list[Run]] = {}
    for run in (run for run in trained if not run.offline):
        name = f"{title(run.mechanism)} {run.model}" if several else title(run.mechanism)
        systems.setdefault(name, []).append(run)
    axis = f"dev_{latency}"
    keys = ("run", "step", "dev_BLEU", axis, "test_BLEU", f"test_{latency}", "folder")
    rows = []
    for (system, alike), (least, most) in product(systems.items(), ranges):
        inside = [r for r in alike if r.folder in dev and least <= dev[r.folder][axis] <= most]
        row: Row = {"system": system, "range": f"{least:g} to {most:g}"}
        row |= {"least": float(least), "most": float(most)}
        rows.append(row | dict.fromkeys(keys))
        if inside:
            run = max(inside, key=lambda run: float(dev[run.folder]["dev_BLEU"]))
            tested = {"test_BLEU": run.number("BLEU"), f"test_{latency}": run.number(latency)}
            named = {"run": names[run.folder], "folder": run.folder}
            rows[-1] |= dev[run.folder] | tested | named
    return rows, [names[run.folder] for run in trained if run.folder not in dev]


def _tested_checkpoint(folder: Path, run: Run, latency: str) -> Row | None:
    """Return the development figures of a run's best checkpoint.

    The best checkpoint is the first validation with the highest `valid/selection` (`conf/trainer`).
    None for averaged weights, which were never validated, and without metrics.
    """
    names = ("valid/selection", "step", "valid/BLEU", f"valid/{run.unit}/{latency}")
    if int(run.options.get("trainer.average", 1)) > 1:
        return None
    rows = read_columns(folder / run.home, *names)
    valid = [row for row in rows if not any(map(math.isnan, row))]
    best = max(valid, key=itemgetter(0), default=None)  # the first of equal ones
    if best is None:
        return None
    return {"step": int(best[1]) + 1, "dev_BLEU": best[2], f"dev_{latency}": best[3]}
