"""The curves of a report: a picture for each latency, for print and for the page."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from markupsafe import Markup
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from simulmt.analysis.curve import Curve, Point, Series, draw_curve
from simulmt.analysis.inline_svg import inline_svg
from simulmt.analysis.names import row_names
from simulmt.analysis.points import curve_series
from simulmt.analysis.runs import Run
from simulmt.analysis.style import save


@dataclass(frozen=True)
class DrawnCurve:
    """A curve as files and as part of the page.

    Attributes:
        files: The pictures that were written.
        svg: The curve for the page; its points link to the runs' details.
        names: The legend's names.
        swatches: A picture of each line in the legend.
    """

    files: Sequence[Path]
    svg: Markup
    names: tuple[str, ...]
    swatches: Sequence[Markup]


def write_curve(
    runs: Sequence[Run], published: Sequence[Series], latency: str, unit: str, convention: str,
    to: Path, shown: tuple[float, float] | None = None,
) -> DrawnCurve | None:  # fmt: skip
    """Draw one curve.

    Args:
        runs: The runs to draw.
        published: Published lines to draw beside them.
        latency: The latency on the x axis.
        unit: Its unit.
        convention: The convention that counts it.
        to: The folder for `curve-LATENCY.png` and `.svg`.
        shown: The least and the greatest quality in the picture; None shows all.

    Returns:
        The curve; None if no run has that latency.
    """
    series = curve_series(runs, latency, unit, convention)
    if not series:
        return None
    scores = [run.scores.oracle.get(unit, {}).get(latency) for run in runs]
    oracle = next((score.value for score in scores if score is not None), None)
    axis = f"{latency} ({'share of the ' if latency == 'AP' else ''}source {unit}s)"
    axis += "" if convention == "paper" else f" by {convention}"
    curve = Curve([*series, *published], axis, oracle, shown)
    files = [to / f"curve-{latency}{suffix}" for suffix in (".png", ".svg")]
    save(draw_curve(curve)[0], files)
    addresses = {run.folder: f"#run-{number}" for number, run in enumerate(runs)}
    figure, handles = draw_curve(curve, lambda point: addresses[point.runs[0]])
    titles = {addresses[p.runs[0]]: title for p, title in _titles(runs, series, latency).items()}
    about = f"BLEU against {axis}; the figures are in the table of runs"
    swatches = [_swatch(handle, f"{latency}-key-{i}") for i, handle in enumerate(handles)]
    names = tuple(str(handle.get_label()) for handle in handles)
    return DrawnCurve(files, inline_svg(figure, latency, about, titles), names, swatches)


def _swatch(handle: Line2D, name: str) -> Markup:
    """The line of a legend's entry; `name` begins its ids."""
    figure = Figure(figsize=(0.55, 0.22))
    line = Line2D([0.05, 0.5, 0.95], [0.5] * 3, markevery=[1])
    line.update_from(handle)
    line.set(transform=figure.transFigure, clip_on=False)  # the handle is of another figure
    figure.add_artist(line)
    return inline_svg(figure, name)


def _titles(runs: Sequence[Run], series: Sequence[Series], latency: str) -> dict[Point, str]:
    """The text that each point shows under the pointer."""
    by_folder = {run.folder: run for run in runs}
    points = [point for line in series for point in line.points]
    named = [by_folder[folder] for folder in dict.fromkeys(point.runs[0] for point in points)]
    names = dict(zip([run.folder for run in named], row_names(named), strict=True))
    titles = {}
    for point in points:
        name = names[point.runs[0]]
        seeds = f", mean of {len(point.runs)} seeds" if len(point.runs) > 1 else ""
        figures = f"BLEU {point.quality:.2f}, {latency} {point.latency:.2f}"
        titles[point] = f"{name}: {figures}{seeds}"
    return titles
