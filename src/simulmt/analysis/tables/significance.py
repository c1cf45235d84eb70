"""Are two lines of a curve equally good at equal latency?"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from simulmt.analysis.runs.intervals import Resampled, holm, mean_of_seeds, middle, p_value
from simulmt.analysis.runs.run import Row, Run
from simulmt.analysis.tables.points import curve_series

_DIGITS = 9


@dataclass(frozen=True)
class ResampledPoint:
    """The folders of runs that differ in the seed alone, and the mean of these runs."""

    folders: Sequence[str]
    mean: Resampled

    @property
    def dal(self) -> float:
        """The DAL of the test set, without the last digits, in which equal DALs may differ."""
        return round(float(self.mean.dal[0]), _DIGITS)


@dataclass(frozen=True)
class ResampledLine:
    """A line of a curve: points in the order of their DAL, joined by straight lines."""

    name: str
    points: Sequence[ResampledPoint]
    metric: str = "BLEU"

    def quality(self, dal: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return quality at a DAL, both (1 + R,); beyond an end of the line, that of the end."""
        dals = np.stack([point.mean.dal for point in self.points], axis=1)  # (1 + R, points)
        values = np.stack([point.mean.quality for point in self.points], axis=1)
        order = np.argsort(dals, axis=1)  # in a resample, neighbours may change places
        dals, values = (np.take_along_axis(figures, order, axis=1) for figures in (dals, values))
        rows, last = np.arange(len(dal)), len(self.points) - 1
        left = np.maximum((dals <= dal[:, None]).sum(axis=1) - 1, 0)
        right = np.minimum(left + 1, last)
        x, y, step = dals[rows, left], values[rows, left], dals[rows, right] - dals[rows, left]
        share = np.clip((dal - x) / np.where(step > 0, step, 1), 0, 1)
        quality: NDArray[np.float64] = y + share * (values[rows, right] - y)
        return quality

    def around(self, dal: float) -> Sequence[ResampledPoint]:
        """Return the one or two points between which a DAL lies; none beyond the ends."""
        dals, dal = [point.dal for point in self.points], round(dal, _DIGITS)
        left, right = sorted((bisect_right(dals, dal) - 1, bisect_left(dals, dal)))
        return self.points[left : right + 1] if dals[0] <= dal <= dals[-1] else []


def _gap(points: Sequence[ResampledPoint]) -> float:
    """Return the words of DAL between the first and the last of some points."""
    return points[-1].dal - points[0].dal


def resampled_lines(runs: Sequence[Run], lines: Mapping[str, str]) -> list[ResampledLine]:
    """Return the lines of the runs that have a log; of points at the same DAL, the best.

    Args:
        runs: All runs.
        lines: The name of each run's line, by folder.
    """
    logged = [run for run in runs if run.resampled]
    resampled = {run.folder: (run.home, run.resampled) for run in logged if run.resampled}
    found = []
    for series in curve_series(logged, "DAL", lines):
        means = [mean_of_seeds(dict(resampled[f] for f in point.runs)) for point in series.points]
        points = [ResampledPoint(p.runs, x) for p, x in zip(series.points, means, strict=True)]
        points.sort(key=lambda point: (point.dal, point.mean.quality[0]))
        best = {point.dal: point for point in points}  # of equal DALs, the best quality
        found.append(ResampledLine(series.name, [*best.values()], runs[0].metric))
    return found


def quality_at(lines: Iterable[ResampledLine], dals: Sequence[float]) -> list[Row]:
    """Return the quality of each line at each DAL that lies between its points, with its interval.

    A line of a single point has a row at the DAL of that point.
    """
    rows: list[Row] = []
    for line in lines:
        single = len(line.points) == 1
        for dal in [line.points[0].dal] if single else dals:
            if around := line.around(dal):
                mean = around[0].mean
                at = mean.dal if single else np.full_like(mean.dal, dal)
                found, metric = line.quality(at), line.metric
                low, high = middle(found[1:])
                row: Row = {"line": line.name, "DAL": dal, metric: found[0]}
                row |= {f"{metric}_low": low, f"{metric}_high": high, "gap": _gap(around)}
                rows.append(row | {"seeds": min(len(point.folders) for point in around)})
    return rows


def matched_pairs(
    runs: Sequence[Run], lines: Sequence[ResampledLine], dals: Sequence[float]
) -> list[Row]:
    """Return the tests of all pairs of lines at equal DAL, as `compare` yields them.

    Lines with different sentences are not tested.

    Args:
        runs: All runs.
        lines: Their lines.
        dals: The DALs at which lines of several points are compared, in words.

    Returns:
        A row for each comparison, the better line first in it.
    """
    texts = {run.folder: tuple((i.source, i.reference) for i in run.log) for run in runs}
    rows: list[Row] = []
    for two in combinations(lines, 2):
        folders = [folder for line in two for point in line.points for folder in point.folders]
        if len({texts[folder] for folder in folders}) == 1:
            rows += compare(*two, dals)
    corrected = holm([row["p"] for row in rows])
    return [row | {"p_holm": p} for row, p in zip(rows, corrected, strict=True)]


def compare(one: ResampledLine, other: ResampledLine, dals: Sequence[float]) -> Iterator[Row]:
    """Yield a row, without `p_holm`, for each DAL at which two lines can be compared.

    Lines of several points are compared where both have points on either side. A line of a single
    point is compared at the point's own DAL, which each resample draws, too. Two single points are
    compared at the DAL of the later one, and not at all if the later one is the better one.

    Args:
        one: A line.
        other: A line of the same sentences and the same draws.
        dals: The DALs at which two lines of several points are compared.
    """
    single = [line.points[0] for line in (one, other) if len(line.points) == 1]
    of_single = sorted((point.mean.dal for point in single), key=lambda dal: float(dal[0]))
    for dal in of_single[-1:] or [np.full_like(one.points[0].mean.dal, dal) for dal in dals]:
        scored = [(line, line.quality(dal)) for line in (one, other)]
        scored.sort(key=lambda pair: (-pair[1][0], pair[0].points[0].dal))
        (better, high), (worse, low) = scored
        lines, two = (better, worse), len(single) == 2
        sides = [line.points if two else line.around(dal[0]) for line in lines]
        if not all(sides) or (two and sides[0][0].dal > sides[1][0].dal):
            continue
        dals_of = (x.points[0].dal if len(x.points) == 1 else dal[0] for x in lines)
        gaps = (0.0 if two else _gap(side) for side in sides)
        seeds = (min(len(point.folders) for point in side) for side in sides)
        folders = ("; ".join(f for point in side for f in point.folders) for side in sides)
        difference = high - low
        least, most = middle(difference[1:])
        row: Row = {"one": better.name, "other": worse.name, "DAL": dal[0]}
        row |= _both("DAL", dals_of) | _both(better.metric, (high[0], low[0]))
        row |= {"difference": difference[0], "difference_low": least, "difference_high": most}
        row |= {"p": p_value(difference[1:]), "p_holm": None} | _both("gap", gaps)
        yield row | _both("seeds", seeds) | {"folders": " | ".join(folders)}


def _both(name: str, values: Iterable[float]) -> Row:
    """Return the columns of a figure of two lines."""
    return dict(zip((f"{name}_one", f"{name}_other"), values, strict=True))
