"""The points of a quality-latency curve, and `curves.csv`.

Runs that differ in the seed alone are one point.
"""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, stdev

from simulmt.analysis.runs.intervals import SEED
from simulmt.analysis.runs.run import Row, Run, RunKind
from simulmt.analysis.tables.names import changing_dials, differing, effective_options, line_names

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
    """The models of one line.

    Attributes:
        name: The name in the legend.
        points: At least one point.
        offline: True if the models read the whole sentence first.
        kind: How the models came to be; the Pareto front leaves out published ones.
    """

    name: str
    points: Sequence[Point]
    offline: bool = False
    kind: RunKind = "trained"

    @property
    def published(self) -> bool:
        """True if the figures are published."""
        return self.kind == "published"

    @property
    def about(self) -> str:
        """The legend's note on the line: `ceiling, 3 seeds`; empty if there is none."""
        words = ["ceiling"] if self.offline and not self.published else []
        seeds = sorted({max(len(point.runs), 1) for point in self.points})
        if seeds[-1] > 1:
            words.append(f"{'–'.join(map(str, dict.fromkeys((seeds[0], seeds[-1]))))} seeds")
        return ", ".join(words)


def curve_series(
    runs: Sequence[Run], latency: str, names: Mapping[str, str] | None = None
) -> list[Series]:
    """Return the lines of the runs that have the metric and a latency, other systems last.

    Args:
        runs: The runs.
        latency: Such as DAL.
        names: The name of each run's line, by folder; None for those of `line_names`.
    """
    names = line_names(runs) if names is None else names
    lines: dict[str, list[Point]] = {}
    firsts: dict[str, Run] = {}
    for group in by_seed(runs):
        places = {run.folder: (run.number(latency), run.number(run.metric)) for run in group}
        measured = [run for run in group if all(map(math.isfinite, places[run.folder]))]
        if not measured:
            continue
        first, *others = measured
        latencies, qualities = zip(*(places[run.folder] for run in measured), strict=True)
        alike = [run for run in runs if names[run.folder] == names[first.folder]]
        said = names[first.folder].split()
        dials = [dial for dial in changing_dials(first, alike) or first.dials() if dial not in said]
        label = ", ".join(dials).replace("lambda_", "λ").replace("lambda", "λ")
        across, up = (stdev(x) if others else 0.0 for x in (latencies, qualities))
        folders = tuple(run.folder for run in measured)
        point = Point(fmean(latencies), fmean(qualities), label, (across, up), folders)
        # a run lies on its own line, and on the line of its decodings
        decodings = [run for run in runs if run.home == first.home and not run.policy]
        for name in {names[run.folder] for run in (first, *decodings * (not first.is_decoding))}:
            lines.setdefault(name, []).append(point)
            firsts.setdefault(name, first)
    return [
        Series(name, lines[name], firsts[name].offline, firsts[name].kind)
        for name in sorted(lines, key=lambda name: (firsts[name].foreign, name))
    ]


def by_seed(runs: Sequence[Run]) -> list[list[Run]]:
    """Return groups of runs with the same options except the seed, each seed once in a group."""
    groups: dict[tuple[object, ...], list[Run]] = {}
    times = Counter[tuple[object, ...]]()
    for run in runs:
        seed = str(run.options.get("seed"))
        policy = sorted((name, str(value)) for name, value in run.policy.items())
        told = run.provenance
        start = told and (told.init_sha256, told.teacher_sha256)
        key = (effective_options(run) - {("seed", seed)}, start, *policy, *run.dials())
        groups.setdefault((key, times[key, seed]), []).append(run)
        times[key, seed] += 1
    return list(groups.values())


def front_points(series: Sequence[Series]) -> list[Point]:
    """Return the points on the Pareto front of the simultaneous models, in the order of latency.

    A point is off the front if another point is at least as good in both, and better in one by more
    than one standard deviation of the seeds, the larger of the two points' deviations. Between
    points without several seeds any difference counts.
    """
    points = [p for line in series if not (line.offline or line.published) for p in line.points]
    front = [point for point in points if not any(_beats(other, point) for other in points)]
    return sorted(front, key=lambda point: (point.latency, -point.quality))


def _beats(one: Point, other: Point) -> bool:
    """Return True if a point is at least as good in both, and in one by more than the seeds are."""
    gains = (other.latency - one.latency, one.quality - other.quality)
    margins = map(max, one.spread, other.spread)
    return min(gains) >= 0 and any(gain > most for gain, most in zip(gains, margins, strict=True))


def curve_rows(runs: Sequence[Run], latencies: Sequence[str]) -> list[Row]:
    """Return the lines of `curves.csv`: the options, scores and comparisons of each run.

    Args:
        runs: The runs, at least one; a run without a log has no interval.
        latencies: The latencies, each with a column that is True for runs on the Pareto front.
    """
    suffix = "" if runs[0].convention == "paper" else f"_{runs[0].convention}"
    fronts = {
        f"front_{name}": {f for p in front_points(curve_series(runs, name)) for f in p.runs}
        for name in latencies
    }
    columns = [*runs[0].row(), "name", "model.name", "data.name"]
    trained = [run for run in runs if not run.foreign]
    faithful = sorted({name for run in runs for name in run.scores.faithfulness})
    options = [k for k in differing(trained) if k.removeprefix("mechanism.") not in columns]
    metrics = dict.fromkeys(metric for run in runs for metric in run.scored)
    retracting = any(run.scores.erasure for run in runs)
    rows: list[Row] = []
    for run in runs:
        drawn = run.resampled
        low, high = drawn.interval if drawn else (None, None)
        row = run.row() | {f"{run.metric}_low{suffix}": low, f"{run.metric}_high{suffix}": high}
        row["resampling"] = f"bs:{len(drawn.quality) - 1}|seed:{SEED}" if drawn else None
        row[f"offline_BLEU{suffix}"] = offline_bleu(run, runs)
        known = run.scores.faithfulness
        row |= {name: known[name].value if name in known else None for name in faithful}
        if retracting:
            row["erasure"] = run.scores.erasure and run.scores.erasure.value
        row |= {column: run.folder in front for column, front in fronts.items()}
        row |= {key: run.option(key) for key in options}
        for name in metrics:
            score = run.scored.get(name)
            row |= {name: score and score.value, f"{name}_signature": score and score.signature}
        rows.append(row)
    return rows


def offline_bleu(run: Run, runs: Sequence[Run]) -> float | None:
    """Return the mean BLEU of `soft` on the same model and data; None without such a run.

    The two may differ in the size of batches and in the model's options for streaming.
    """

    def compared(run: Run) -> set[tuple[str, str]]:
        pairs = {pair for pair in effective_options(run) if pair[0].startswith(("model.", "data."))}
        return {(key, value) for key, value in pairs if key not in _OF_STREAMING}

    own = compared(run)
    offline = [soft for soft in runs if soft.mechanism == "soft" and not soft.is_decoding]
    figures = [soft.number("BLEU") for soft in offline if compared(soft) == own]
    return fmean(figures) if figures else None
