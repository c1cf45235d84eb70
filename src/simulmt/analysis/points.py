"""The points of a quality-latency curve: runs that differ in the seed alone are one point."""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Sequence

from simulmt.analysis.curve import Point, Series, front_points
from simulmt.analysis.names import effective_options, variants
from simulmt.analysis.runs import Run

_OF_STREAMING = ("model.encoder", "model.average_embedding", "data.batch_tokens")


def curve_series(
    runs: Sequence[Run], latency: str, unit: str, convention: str = "paper"
) -> list[Series]:
    """Return the lines of the runs that have a latency, one per mechanism, model and variant."""
    lines: dict[str, tuple[list[Point], bool]] = {}
    names = variants(runs)
    for group in by_seed(runs):
        figures = [(r.latency(latency, unit, convention), r.bleu(convention)) for r in group]
        if all(math.isfinite(value) for value, _ in figures):
            first = group[0]
            label = ", ".join(first.dials()).replace("lambda_", "λ").replace("lambda", "λ")
            (x, across), (y, up) = (_mean(column) for column in zip(*figures, strict=True))
            point = Point(x, y, label, (across, up), tuple(run.folder for run in group))
            # a run lies on its own line, and on the line of its decodings
            alike = [first] if first.turned else [run for run in runs if run.home == first.home]
            for name in {names[run.folder] for run in alike}:
                lines.setdefault(name, ([], first.traits.offline))[0].append(point)
    return [Series(name, *line) for name, line in sorted(lines.items())]


def by_seed(runs: Sequence[Run]) -> list[list[Run]]:
    """Return groups of runs with the same options except the seed, each seed once in a group."""
    groups: dict[tuple[object, ...], list[Run]] = {}
    times = Counter[tuple[object, ...]]()
    for run in runs:
        seed = str(run.options["seed"])
        key = (effective_options(run) - {("seed", seed)}, *run.dials())
        groups.setdefault((key, times[key, seed]), []).append(run)
        times[key, seed] += 1
    return list(groups.values())


def on_front(runs: Sequence[Run], latency: str, unit: str, convention: str) -> set[str]:
    """Return the folders of the runs whose point is on the Pareto front."""
    front = front_points(curve_series(runs, latency, unit, convention))
    return {folder for point in front for folder in point.runs}


def offline_bleu(run: Run, runs: Sequence[Run], convention: str) -> float | None:
    """Return the mean BLEU of `soft` on the same model and data; None without such a run.

    The two may differ in the size of batches and in the model's options for streaming.
    """

    def compared(run: Run) -> set[tuple[str, str]]:
        pairs = {pair for pair in effective_options(run) if pair[0].startswith(("model.", "data."))}
        return {(key, value) for key, value in pairs if key not in _OF_STREAMING}

    offline = [soft for soft in runs if soft.mechanism == "soft" and not soft.turned]
    figures = [soft.bleu(convention) for soft in offline if compared(soft) == compared(run)]
    return statistics.fmean(figures) if figures else None


def _mean(values: Sequence[float]) -> tuple[float, float]:
    """Return mean and standard deviation; the deviation of one value is 0."""
    return statistics.fmean(values), statistics.stdev(values) if len(values) > 1 else 0.0
