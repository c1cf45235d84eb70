"""Are two systems that are equally quick equally good?"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Any

from simulmt.analysis.intervals import Resampled, p_value
from simulmt.analysis.logs import Logs, same_sentences
from simulmt.analysis.runs import Run

COLUMNS = ("one", "other", "DAL_one", "DAL_other", "BLEU_one", "BLEU_other", "difference", "p",
           "folder_one", "folder_other")  # fmt: skip
"""Of `significance.csv`."""


def matched_pairs(
    runs: Sequence[Run], names: Mapping[str, str], logs: Logs,
    resampled: Mapping[str, Resampled], unit: str, convention: str, tolerance: float,
) -> list[dict[str, Any]]:  # fmt: skip
    """Pairs of runs of different mechanisms at matched latency, and the paired bootstrap test.

    Runs without `instances.log`, and pairs with other sentences, are not tested.

    Args:
        runs: all of them.
        names: what each is called, by folder.
        logs: their decoded test sets.
        resampled: their BLEU.
        unit: of DAL.
        convention: whose DAL.
        tolerance: by how much their DAL may differ.

    Returns:
        A row for each pair, the better run first in it, closest latencies first.
    """
    rows = []
    for pair in combinations([run for run in runs if run.folder in resampled], 2):
        one, other = sorted(pair, key=lambda run: -resampled[run.folder].bleu)
        here, there = (run.latency("DAL", unit, convention) for run in (one, other))
        if not (math.isfinite(here) and abs(here - there) <= tolerance):
            continue
        if one.mechanism == other.mechanism:
            continue
        if not same_sentences(logs[one.folder], logs[other.folder]):
            continue
        first, second = resampled[one.folder], resampled[other.folder]
        values = (
            names[one.folder], names[other.folder], here, there, first.bleu, second.bleu,
            first.bleu - second.bleu, p_value(first, second), one.folder, other.folder,
        )  # fmt: skip
        rows.append(dict(zip(COLUMNS, values, strict=True)))
    return sorted(rows, key=lambda row: abs(row["DAL_one"] - row["DAL_other"]))
