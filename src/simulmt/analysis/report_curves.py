"""The curves of a report: a picture for each latency, for print and for the page."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path

from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from simulmt.analysis.curve import Point, Series, draw_curve, make_curve
from simulmt.analysis.inline_svg import inline_svg
from simulmt.analysis.names import row_names
from simulmt.analysis.points import curve_series
from simulmt.analysis.runs import Run


@dataclass(frozen=True)
class Drawn:
    """A curve that was drawn.

    Attributes:
        files: What was written.
        svg: The curve for the page, whose points lead to the runs' details.
        names: What the legend names.
        key: The legend for the page.
    """

    files: Sequence[Path]
    svg: str
    names: Sequence[str]
    key: str


def write_curve(
    runs: Sequence[Run], published: Sequence[Series], latency: str, unit: str, convention: str,
    to: Path, shown: tuple[float, float] | None = None,
) -> Drawn | None:  # fmt: skip
    """Draw one curve.

    Args:
        runs: what to draw.
        published: what to draw besides.
        latency: of the x axis.
        unit: of it.
        convention: whose figures.
        shown: the least and the greatest quality in the picture; None: all.
        to: where to write `curve-LATENCY.png` and `.svg`.

    Returns:
        The curve; None if no run has that latency.
    """
    series = curve_series(runs, latency, unit, convention)
    if not series:
        return None
    oracles = [run.scores.oracle.get(unit, {}).get(latency) for run in runs]
    oracle = next((score.value for score in oracles if score is not None), None)
    axis = f"{latency} ({'share of the ' if latency == 'AP' else ''}source {unit}s)"
    axis += "" if convention == "paper" else f" by {convention}"
    series += published
    paths = [to / f"curve-{latency}{suffix}" for suffix in (".png", ".svg")]
    draw_curve(series, paths, latency=axis, oracle=oracle, shown=shown)
    places = {run.folder: f"#run-{number}" for number, run in enumerate(runs)}

    def link(point: Point) -> str:
        return places[point.runs[0]]

    figure, handles = make_curve(series, latency=axis, oracle=oracle, shown=shown, page=link)
    points = [point for one in series for point in one.points if point.runs]
    firsts = {run.folder: run for run in runs}
    named = [firsts[folder] for folder in dict.fromkeys(point.runs[0] for point in points)]
    names = dict(zip([run.folder for run in named], row_names(named), strict=True))
    titles = {link(point): _title(point, names[point.runs[0]], latency) for point in points}
    about = f"BLEU against {axis}; the figures are in the table of runs"
    keys = "".join(_key(handle, f"{latency}-key-{i}") for i, handle in enumerate(handles))
    legend = [str(handle.get_label()) for handle in handles]
    return Drawn(paths, inline_svg(figure, latency, about, titles), legend, keys)


def page_curves(curves: Sequence[Drawn]) -> str:
    """The curves for the page, with one legend if they have the same."""
    shared = all(curve.names == curves[0].names for curve in curves)
    first = f'<p class="key">{curves[0].key}</p>' if shared else ""
    keys = ["" if shared else f'<p class="key">{curve.key}</p>' for curve in curves]
    figures = (
        f"<figure>{curve.svg}{key}</figure>" for curve, key in zip(curves, keys, strict=True)
    )
    return f'{first}<div class="curves">{"".join(figures)}</div>'


def _key(handle: Line2D, name: str) -> str:
    """An entry of the legend."""
    figure = Figure(figsize=(0.55, 0.22))
    line = Line2D([0.05, 0.5, 0.95], [0.5] * 3, markevery=[1])
    line.update_from(handle)
    line.set(transform=figure.transFigure, clip_on=False)  # of another figure until here
    figure.add_artist(line)
    return f"<span>{inline_svg(figure, name)}{escape(str(handle.get_label()))}</span>"


def _title(point: Point, name: str, latency: str) -> str:
    """What is said of a point."""
    seeds = f", mean of {len(point.runs)} seeds" if len(point.runs) > 1 else ""
    figures = f"BLEU {point.quality:.2f}, {latency} {point.latency:.2f}"
    return f"{name}: {figures}{seeds}"
