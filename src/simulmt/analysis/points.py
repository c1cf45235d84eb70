"""The points of a quality-latency curve, and `curves.csv`.

Runs that differ in the seed alone are one point.
"""

import math
import statistics
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from simulmt.analysis.intervals import SEED
from simulmt.analysis.names import differing, effective_options, variants
from simulmt.analysis.run import Row, Run

_OWN_COLUMN = ("name", "model.name", "data.name")
_OF_STREAMING = ("model.encoder", "model.average_embedding", "data.batch_tokens")


@dataclass(frozen=True)
class Point:
    """A model, or the mean of several that differ in the seed alone.

    Attributes:
        latency: The mean latency.
        quality: The mean quality.
        label: The text beside the point.
        spread: Standard deviations of latency and quality; 0 for one model.
        runs: The folders of the models.
    """

    latency: float
    quality: float
    label: str = ""
    spread: tuple[float, float] = (0.0, 0.0)
    runs: tuple[str, ...] = ()

    @property
    def place(self) -> tuple[float, float]:
        """Latency and quality."""
        return self.latency, self.quality


@dataclass(frozen=True)
class Series:
    """The models of one mechanism.

    Attributes:
        name: The name in the legend.
        points: At least one point.
        offline: Whether the models read the whole sentence first.
        published: Whether the figures are published; the Pareto front leaves these out.
    """

    name: str
    points: Sequence[Point]
    offline: bool = False
    published: bool = False

    @property
    def best(self) -> float:
        """The highest quality."""
        return max(point.quality for point in self.points)


def curve_series(runs: Sequence[Run], latency: str) -> list[Series]:
    """Return the lines of the runs that have a latency, one per mechanism, model and variant."""
    lines: dict[str, tuple[list[Point], bool]] = {}
    names = variants(runs)
    for group in by_seed(runs):
        figures = [(run.latency(latency), run.bleu) for run in group]
        if all(math.isfinite(value) for value, _ in figures):
            first = group[0]
            label = ", ".join(first.dials()).replace("lambda_", "λ").replace("lambda", "λ")
            (x, across), (y, up) = (_mean(column) for column in zip(*figures, strict=True))
            point = Point(x, y, label, (across, up), tuple(run.folder for run in group))
            # a run lies on its own line, and on the line of its decodings
            alike = [first]
            if not first.is_decoding:
                alike += [run for run in runs if run.home == first.home and not run.policy]
            for name in {names[run.folder] for run in alike}:
                lines.setdefault(name, ([], first.offline))[0].append(point)
    return [Series(name, *line) for name, line in sorted(lines.items())]


def by_seed(runs: Sequence[Run]) -> list[list[Run]]:
    """Return groups of runs with the same options except the seed, each seed once in a group."""
    groups: dict[tuple[object, ...], list[Run]] = {}
    times = Counter[tuple[object, ...]]()
    for run in runs:
        seed = str(run.options["seed"])
        key = (effective_options(run) - {("seed", seed)}, run.policy.get("name"), *run.dials())
        groups.setdefault((key, times[key, seed]), []).append(run)
        times[key, seed] += 1
    return list(groups.values())


def front_points(series: Sequence[Series]) -> list[Point]:
    """Return the points on the Pareto front of the simultaneous models, in the order of latency.

    A point is off the front if another point is at least as good in both and better in one; equal
    points are on it together.
    """
    lines = [line.points for line in series if not (line.offline or line.published)]
    points = [point for line in lines for point in line]
    front: list[Point] = []
    for point in sorted(points, key=lambda point: (point.latency, -point.quality)):
        if not front or point.quality > front[-1].quality or point.place == front[-1].place:
            front.append(point)
    return front


def curve_rows(runs: Sequence[Run], latencies: Sequence[str]) -> list[Row]:
    """Return the lines of `curves.csv`: the options, scores and comparisons of each run.

    Args:
        runs: The runs, at least one; a run without a log has no interval.
        latencies: The latencies for which a column says whether the run is on the Pareto front.
    """
    suffix = "" if runs[0].convention == "paper" else f"_{runs[0].convention}"
    fronts = {name: front_points(curve_series(runs, name)) for name in latencies}
    columns = [*runs[0].row(), *_OWN_COLUMN]
    options = [k for k in differing(runs) if k.removeprefix("mechanism.") not in columns]
    rows: list[Row] = []
    for run in runs:
        bleu = run.resampled
        low, high = bleu.interval if bleu else (None, None)
        rows.append({
            **run.row(),
            f"BLEU_low{suffix}": low,
            f"BLEU_high{suffix}": high,
            "resampling": f"bs:{len(bleu.samples)}|seed:{SEED}" if bleu else None,
            f"offline_BLEU{suffix}": offline_bleu(run, runs),
            **{f"front_{name}": any(run.folder in point.runs for point in front)
               for name, front in fronts.items()},
            **{key: run.option(key) for key in options},
        })  # fmt: skip
    return rows


def offline_bleu(run: Run, runs: Sequence[Run]) -> float | None:
    """Return the mean BLEU of `soft` on the same model and data; None without such a run.

    The two may differ in the size of batches and in the model's options for streaming.
    """

    def compared(run: Run) -> set[tuple[str, str]]:
        pairs = {pair for pair in effective_options(run) if pair[0].startswith(("model.", "data."))}
        return {(key, value) for key, value in pairs if key not in _OF_STREAMING}

    offline = [soft for soft in runs if soft.mechanism == "soft" and not soft.is_decoding]
    figures = [soft.bleu for soft in offline if compared(soft) == compared(run)]
    return statistics.fmean(figures) if figures else None


def _mean(values: Sequence[float]) -> tuple[float, float]:
    """Return mean and standard deviation; the deviation of one value is 0."""
    return statistics.fmean(values), statistics.stdev(values) if len(values) > 1 else 0.0
