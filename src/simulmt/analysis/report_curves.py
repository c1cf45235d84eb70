"""The curves of a report: a picture for each latency, for print and for the page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from simulmt.analysis.curve import NARROW, Point, Series, draw_curve, make_curve
from simulmt.analysis.inline_svg import inline_svg
from simulmt.analysis.points import curve_series
from simulmt.analysis.runs import Run


def write_curve(
    runs: Sequence[Run], published: Sequence[Series], latency: str, unit: str, convention: str,
    names: Mapping[str, str], to: Path,
) -> tuple[list[Path], str] | None:  # fmt: skip
    """Draw one curve.

    Args:
        runs: what to draw.
        published: what to draw besides.
        latency: of the x axis.
        unit: of it.
        convention: whose figures.
        names: what each run is called, by folder.
        to: where to write `curve-LATENCY.png` and `.svg`.

    Returns:
        The files, and the curve for the page, whose points lead to the runs' details; None if no
        run has that latency.
    """
    series = curve_series(runs, latency, unit, convention)
    if not series:
        return None
    oracles = [r.scores["oracle"].get(unit, {}).get(latency) for r in runs if "oracle" in r.scores]
    oracle = next(iter(oracles), None)
    axis = f"{latency} ({'share of the ' if latency == 'AP' else ''}source {unit}s)"
    axis += "" if convention == "paper" else f" by {convention}"
    series += published
    paths = [to / f"curve-{latency}{suffix}" for suffix in (".png", ".svg")]
    draw_curve(series, paths, latency=axis, oracle=oracle)
    places = {run.folder: f"#run-{number}" for number, run in enumerate(runs)}

    def link(point: Point) -> str:
        return places[point.runs[0]]

    figure = make_curve(series, latency=axis, oracle=oracle, size=NARROW, link=link)
    points = [point for one in series for point in one.points if point.runs]
    titles = {link(point): _title(point, names, latency) for point in points}
    about = f"BLEU against {axis}; the figures are in the table of runs"
    return paths, inline_svg(figure, latency, about, titles)


def _title(point: Point, names: Mapping[str, str], latency: str) -> str:
    """What is said of a point."""
    seeds = f", mean of {len(point.runs)} seeds" if len(point.runs) > 1 else ""
    figures = f"BLEU {point.quality:.2f}, {latency} {point.latency:.2f}"
    return f"{names[point.runs[0]]}: {figures}{seeds}"
