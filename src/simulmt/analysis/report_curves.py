"""The curves of a report: a picture for each latency, for print and for the page."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from markupsafe import Markup
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from simulmt.analysis.curve import Curve, Series, draw_curve
from simulmt.analysis.inline_svg import inline_svg
from simulmt.analysis.names import row_names
from simulmt.analysis.points import curve_series
from simulmt.analysis.runs import Run
from simulmt.analysis.style import save


@dataclass(frozen=True)
class DrawnCurve:
    """A curve as files and as part of the page.

    Attributes:
        files: The paths of the pictures.
        svg: The curve for the page; each point links to the details of its run.
        legend: The name of each line, and a picture of the line.
    """

    files: Sequence[Path]
    svg: Markup
    legend: Sequence[tuple[str, Markup]]

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the lines."""
        return tuple(name for name, _ in self.legend)


def write_curve(
    runs: Sequence[Run], published: Sequence[Series], latency: str, unit: str, convention: str,
    to: Path, shown: tuple[float, float] | None = None,
) -> DrawnCurve | None:  # fmt: skip
    """Draw the curve of one latency; returns None if no run has that latency.

    Args:
        runs: The runs to draw.
        published: Published lines to draw beside the runs.
        latency: The latency on the x axis.
        unit: The unit of the latency.
        convention: The convention of the latency.
        to: The folder for `curve-LATENCY.png` and `.svg`.
        shown: The least and the greatest quality in the picture; None shows all.
    """
    series = curve_series(runs, latency, unit, convention)
    if not series:
        return None
    oracles = [run.scores.oracle.get(unit, {}).get(latency) for run in runs]
    oracle = next((score.value for score in oracles if score is not None), None)
    axis = f"{latency} ({'share of the ' if latency == 'AP' else ''}source {unit}s)"
    axis += "" if convention == "paper" else f" by {convention}"
    curve = Curve([*series, *published], axis, oracle, shown)
    files = [to / f"curve-{latency}{suffix}" for suffix in (".png", ".svg")]
    save(draw_curve(curve)[0], files)
    addresses = {run.folder: f"#run-{number}" for number, run in enumerate(runs)}
    figure, handles = draw_curve(curve, lambda point: addresses[point.runs[0]])
    titles = {addresses[folder]: text for folder, text in _titles(runs, series, latency).items()}
    about = f"BLEU against {axis}; the figures are in the table of runs"
    legend = [
        (str(handle.get_label()), _swatch(handle, f"{latency}-key-{i}"))
        for i, handle in enumerate(handles)
    ]
    return DrawnCurve(files, inline_svg(figure, latency, about, titles), legend)


def _swatch(handle: Line2D, name: str) -> Markup:
    """Return a picture of the line of a legend's entry; `name` begins the ids of the picture."""
    figure = Figure(figsize=(0.55, 0.22))
    line = Line2D([0.05, 0.5, 0.95], [0.5] * 3, markevery=[1])
    line.update_from(handle)
    line.set(transform=figure.transFigure, clip_on=False)  # the handle is of another figure
    figure.add_artist(line)
    return inline_svg(figure, name)


def _titles(runs: Sequence[Run], series: Sequence[Series], latency: str) -> dict[str, str]:
    """Return the text under the pointer for each point, by the folder of the point's first run."""
    points = {point.runs[0]: point for line in series for point in line.points}
    names = row_names([run for run in runs if run.folder in points])
    titles = {}
    for folder, point in points.items():
        seeds = f", mean of {len(point.runs)} seeds" if len(point.runs) > 1 else ""
        figures = f"BLEU {point.quality:.2f}, {latency} {point.latency:.2f}"
        titles[folder] = f"{names[folder]}: {figures}{seeds}"
    return titles
