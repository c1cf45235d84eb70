"""Are two systems that are equally quick equally good?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from statistics import fmean

import numpy as np

from simulmt.analysis.intervals import Resampled, middle, p_value
from simulmt.analysis.logs import Logs, same_sentences
from simulmt.analysis.names import row_names, variants
from simulmt.analysis.points import by_seed
from simulmt.analysis.runs import Row, Run

COLUMNS = ("one", "other", "DAL_one", "DAL_other", "BLEU_one", "BLEU_other",
           "difference", "difference_low", "difference_high", "p",
           "folder_one", "folder_other")  # fmt: skip
"""The columns of `significance.csv`."""
BETWEEN = "; "
"""Separates the folders of several seeds."""


@dataclass(frozen=True)
class System:
    """Runs that differ in the seed alone: their means."""

    name: str
    line: str
    runs: Sequence[Run]
    latency: float
    resampled: Resampled


def matched_pairs(
    runs: Sequence[Run], logs: Logs,
    resampled: Mapping[str, Resampled], unit: str, convention: str, tolerance: float,
) -> list[Row]:  # fmt: skip
    """Return pairs of points of different lines at matched latency, with the paired bootstrap test.

    Runs that differ in the seed alone are one point, as in the curves: BLEU and DAL are their
    means, in each resample, too. Runs without a log, and pairs with other sentences, are not
    tested.

    Args:
        runs: all of them.
        logs: their decoded test sets.
        resampled: their BLEU.
        unit: of DAL.
        convention: of DAL.
        tolerance: by how much the two DAL may differ.

    Returns:
        A row for each pair, the better one first in it, closest latencies first.
    """
    pairs = []
    for two in combinations(_systems(runs, resampled, unit, convention), 2):
        one, other = sorted(two, key=lambda system: -system.resampled.bleu)
        apart = abs(one.latency - other.latency)
        if one.line == other.line or not apart <= tolerance:  # NaN if both are infinite
            continue
        logged = [logs[run.folder] for run in (*one.runs, *other.runs)]
        if all(same_sentences(logged[0], log) for log in logged):
            pairs.append((apart, _row(one, other)))
    return [row for _, row in sorted(pairs, key=lambda pair: pair[0])]


def _systems(
    runs: Sequence[Run], resampled: Mapping[str, Resampled], unit: str, convention: str
) -> list[System]:
    groups = by_seed([run for run in runs if run.folder in resampled])
    firsts = [group[0] for group in groups]
    systems = []
    for group, name, line in zip(groups, row_names(firsts), variants(firsts), strict=True):
        seeds = [resampled[run.folder] for run in group]
        samples = np.mean([seed.samples for seed in seeds], axis=0)
        mean = Resampled(fmean(seed.bleu for seed in seeds), samples)
        latency = fmean(run.latency("DAL", unit, convention) for run in group)
        several = f", {len(group)} seeds" if len(group) > 1 else ""
        systems.append(System(name + several, line, group, latency, mean))
    return systems


def _row(one: System, other: System) -> Row:
    first, second = one.resampled, other.resampled
    folders = (BETWEEN.join(run.folder for run in system.runs) for system in (one, other))
    values = (
        one.name, other.name, one.latency, other.latency, first.bleu, second.bleu,
        first.bleu - second.bleu, *middle(first.samples - second.samples),
        p_value(first, second), *folders,
    )  # fmt: skip
    return dict(zip(COLUMNS, values, strict=True))
