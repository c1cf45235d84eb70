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
    """Lines of the runs that have a latency, one per mechanism, model and variant of them."""
    lines: dict[str, tuple[list[Point], bool]] = {}
    names = dict(zip([run.folder for run in runs], variants(runs), strict=True))
    for group in by_seed(runs):
        figures = [(r.latency(latency, unit, convention), _bleu(r, convention)) for r in group]
        if all(math.isfinite(value) for value, _ in figures):
            first = group[0]
            label = ", ".join(first.dials()).replace("lambda", "λ").replace("_", "")
            (x, across), (y, up) = (_mean(column) for column in zip(*figures, strict=True))
            point = Point(x, y, label, (across, up), tuple(run.folder for run in group))
            lines.setdefault(names[first.folder], ([], first.trait("offline")))[0].append(point)
    return [Series(name, *line) for name, line in sorted(lines.items())]


def by_seed(runs: Sequence[Run]) -> list[list[Run]]:
    """Runs with the same choices but for the seed; none is twice in one group."""
    groups: dict[tuple[object, ...], list[Run]] = {}
    times = Counter[tuple[object, ...]]()
    for run in runs:
        chosen = choices(run) - {("seed", str(run.options["seed"]))}
        key = (chosen, *run.dials())
        seeded = (key, run.options["seed"])
        groups.setdefault((key, times[seeded]), []).append(run)
        times[seeded] += 1
    return list(groups.values())


def on_front(runs: Sequence[Run], latency: str, unit: str, convention: str) -> set[str]:
    """The folders of the runs whose point is on the Pareto front."""
    front = front_points(curve_series(runs, latency, unit, convention))
    return {folder for point in front for folder in point.runs}


def offline_bleu(run: Run, runs: Sequence[Run], convention: str) -> float | None:
    """BLEU of `soft` on the same model and data, the mean if there are several; None without one.

    The same but for what a model has for the sake of streaming, and the size of its batches.
    """

    def kept(one: Run) -> set[tuple[str, str]]:
        found = {pair for pair in choices(one) if pair[0].startswith(("model.", "data."))}
        return {(key, value) for key, value in found if key not in _OF_STREAMING}

    found = [_bleu(o, convention) for o in runs if o.mechanism == "soft" and kept(o) == kept(run)]
    return statistics.fmean(found) if found else None


def _bleu(run: Run, convention: str) -> float:
    return float(run.figures(convention)["BLEU"])


def _mean(values: Sequence[float]) -> tuple[float, float]:
    """Mean and standard deviation, which is 0 for one value."""
    return statistics.fmean(values), statistics.stdev(values) if len(values) > 1 else 0.0
