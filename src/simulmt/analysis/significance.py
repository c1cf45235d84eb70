"""Are two systems of equal latency equally good?"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from statistics import fmean

import numpy as np

from simulmt.analysis.intervals import Resampled, middle, p_value
from simulmt.analysis.names import row_names, variants
from simulmt.analysis.points import by_seed
from simulmt.analysis.run import Row, Run

COLUMNS = ("one", "other", "DAL_one", "DAL_other", "BLEU_one", "BLEU_other",
           "difference", "difference_low", "difference_high", "p",
           "folder_one", "folder_other")  # fmt: skip
"""The columns of `significance.csv`."""
BETWEEN = "; "
"""Separates the folders of several seeds."""


@dataclass(frozen=True)
class System:
    """Runs that differ in the seed alone, with their mean latency and BLEU."""

    name: str
    line: str
    runs: Sequence[Run]
    latency: float
    bleu: Resampled


def matched_pairs(
    runs: Sequence[Run], tolerance: float, lines: Mapping[str, str] | None = None
) -> list[Row]:
    """Return the paired bootstrap test of each two systems of different lines at matched latency.

    As in the curves, runs that differ in the seed alone are one system. The system has the mean
    BLEU and DAL of its runs, also in each resample. Runs without a log, and pairs with different
    sentences, are not tested.

    Args:
        runs: All runs.
        tolerance: The greatest difference in DAL.
        lines: The name of each run's line, by folder; None for those of `variants`.

    Returns:
        A row for each pair, the better system first in it, closest latencies first.
    """
    pairs = []
    for two in combinations(_systems(runs, variants(runs) if lines is None else lines), 2):
        better, worse = sorted(two, key=lambda system: -system.bleu.bleu)
        apart = abs(better.latency - worse.latency)
        if better.line == worse.line or not apart <= tolerance:  # NaN if both are infinite
            continue
        logs = [run.log for run in (*better.runs, *worse.runs)]
        texts = [[(i.source, i.reference) for i in log] for log in logs]
        if all(text == texts[0] for text in texts):
            pairs.append((apart, _row(better, worse)))
    return [row for _, row in sorted(pairs, key=lambda pair: pair[0])]


def system_names(
    runs: Sequence[Run], name: Callable[[Sequence[Run]], Mapping[str, str]] = row_names
) -> dict[str, str]:
    """Return the name of each system with a log, by the folder of its first run.

    Args:
        runs: All runs.
        name: Returns the name of each of some runs, by folder.
    """
    groups = by_seed([run for run in runs if run.resampled])
    names = name([group[0] for group in groups])
    return {
        group[0].folder: names[group[0].folder]
        + (f", {len(group)} seeds" if len(group) > 1 else "")
        for group in groups
    }


def _systems(runs: Sequence[Run], lines: Mapping[str, str]) -> list[System]:
    names, systems = system_names(runs), []
    for group in by_seed([run for run in runs if run.resampled]):
        folder, seeds = group[0].folder, [run.resampled for run in group if run.resampled]
        samples = np.mean([seed.samples for seed in seeds], axis=0)
        bleu = Resampled(fmean(seed.bleu for seed in seeds), samples)
        latency = fmean(run.latency("DAL") for run in group)
        systems.append(System(names[folder], lines[folder], group, latency, bleu))
    return systems


def _row(better: System, worse: System) -> Row:
    first, second = better.bleu, worse.bleu
    folders = (BETWEEN.join(run.folder for run in system.runs) for system in (better, worse))
    values = (
        better.name, worse.name, better.latency, worse.latency, first.bleu, second.bleu,
        first.bleu - second.bleu, *middle(first.samples - second.samples),
        p_value(first, second), *folders,
    )  # fmt: skip
    return dict(zip(COLUMNS, values, strict=True))
