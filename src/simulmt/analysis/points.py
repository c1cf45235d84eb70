"""The points of a quality-latency curve: runs that differ in the seed alone are one."""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Sequence

from simulmt.analysis.curve import Point, Series, front_points
from simulmt.analysis.names import choices, variants
from simulmt.analysis.runs import Run

_OF_STREAMING = ("model.encoder", "model.average_embedding", "data.batch_tokens")


def curve_series(
    runs: Sequence[Run], latency: str, unit: str, convention: str = "paper"
) -> list[Series]:
    """Return the lines of the runs that have a latency, one per mechanism, model and variant."""
    lines: dict[str, tuple[list[Point], bool]] = {}
    names = dict(zip([run.folder for run in runs], variants(runs), strict=True))
    for group in by_seed(runs):
        figures = [(r.latency(latency, unit, convention), r.bleu(convention)) for r in group]
        if all(math.isfinite(value) for value, _ in figures):
            first = group[0]
            label = ", ".join(first.dials()).replace("lambda", "λ").replace("_", "")
            (x, across), (y, up) = (_mean(column) for column in zip(*figures, strict=True))
            point = Point(x, y, label, (across, up), tuple(run.folder for run in group))
            # a run lies on its own line, and on that of its decodings
            alike = [first] if first.turned else [run for run in runs if run.home == first.home]
            for name in {names[run.folder] for run in alike}:
                lines.setdefault(name, ([], first.trait("offline")))[0].append(point)
    return [Series(name, *line) for name, line in sorted(lines.items())]


def by_seed(runs: Sequence[Run]) -> list[list[Run]]:
    """Return groups of runs with the same options but for the seed, each seed once in a group."""
    groups: dict[tuple[object, ...], list[Run]] = {}
    times = Counter[tuple[object, ...]]()
    for run in runs:
        options = choices(run) - {("seed", str(run.options["seed"]))}
        key = (options, *run.dials())
        seeded = (key, run.options["seed"])
        groups.setdefault((key, times[seeded]), []).append(run)
        times[seeded] += 1
    return list(groups.values())


def on_front(runs: Sequence[Run], latency: str, unit: str, convention: str) -> set[str]:
    """Return the folders of the runs whose point is on the Pareto front."""
    front = front_points(curve_series(runs, latency, unit, convention))
    return {folder for point in front for folder in point.runs}


def offline_bleu(run: Run, runs: Sequence[Run], convention: str) -> float | None:
    """Return the mean BLEU of `soft` on the same model and data; None without such a run.

    Options that a model has for the sake of streaming, and the size of its batches, may differ.
    """

    def compared(run: Run) -> set[tuple[str, str]]:
        pairs = {pair for pair in choices(run) if pair[0].startswith(("model.", "data."))}
        return {(key, value) for key, value in pairs if key not in _OF_STREAMING}

    offline = [other for other in runs if other.mechanism == "soft" and not other.turned]
    figures = [o.bleu(convention) for o in offline if compared(o) == compared(run)]
    return statistics.fmean(figures) if figures else None


def _mean(values: Sequence[float]) -> tuple[float, float]:
    """Return mean and standard deviation, which is 0 for one value."""
    return statistics.fmean(values), statistics.stdev(values) if len(values) > 1 else 0.0
