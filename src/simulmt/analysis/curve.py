"""Quality against latency as a picture: one line for each system."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from simulmt.analysis.curve_marks import (
    draw_front,
    draw_oracle,
    draw_series,
    draw_whiskers,
    kind_handles,
    series_styles,
)
from simulmt.analysis.labels import Label, ceiling_label, place_labels, point_label
from simulmt.analysis.points import Point, Series
from simulmt.analysis.style import (
    DPI,
    Style,
    draw_legend,
    line_styles,
    make_panels,
    scale_points,
)

Range: TypeAlias = tuple[float, float]
"""The least and the greatest value."""
_NARROW = (5.4, 4.0)  # inches, for a column of a page
_LEGEND = 0.17  # share of the usual height that a legend may fill


@dataclass(frozen=True)
class Print:
    """The look of a printed picture.

    Attributes:
        width: In inches.
        font_size: Of the text of the legend, in points; all else is in proportion.
    """

    width: float = 7.0
    font_size: float = 10.0

    @property
    def size(self) -> tuple[float, float]:
        """Width and height in inches, without what a long legend adds."""
        return self.width, self.width * 4.4 / 7

    @property
    def scale(self) -> float:
        """By how much text, lines and markers are larger than usual."""
        return self.font_size / 10


def draw_curve(
    series: Sequence[Series], latency: str, oracle: float | None = None,
    shown: Range | None = None, link: Callable[[Point], str] | None = None,
    look: Print = Print(),
) -> tuple[Figure, list[Line2D]]:  # fmt: skip
    """Draw quality against latency.

    Each line goes in the order of latency, with its own colour, marker and dashes; lines of
    policies have hollow markers. An offline model has a horizontal line besides its points.
    Published points are grey and hollow, and have no labels. Whiskers are standard deviations over
    seeds. The Pareto front is a grey band in steps: the best quality within a latency. The label of
    a point is its dial, or its line if the line has a single point. A label without room is left
    out.

    Args:
        series: At least one series, with at least one point in all.
        latency: The label of the x axis.
        oracle: The latency of the oracle, if known; faster models have to guess.
        shown: The least and the greatest quality in the picture; None shows all. The picture is as
            wide as the shown simultaneous points need, and leaves out a series without one.
        link: Returns the address of a point, for a page that draws the legend itself.
        look: The look of a picture that is not for a page.

    Returns:
        The figure, and the entries of its legend.
    """
    scale = look.scale if link is None else 1.0
    figure, (axes,) = make_panels(1, 1, *(look.size if link is None else _NARROW))
    axes.set(xlabel=latency, ylabel="BLEU")
    axes.margins(x=0.07, y=0.1)
    axes.yaxis.set_major_locator(MaxNLocator(nbins=7, steps=[1, 2, 5, 10]))
    styled = [*zip(series, series_styles(series), strict=True)]
    visible = [(line, style) for line, style in styled if _within(line.points, shown)]
    handles = [draw_series(axes, line, style) for line, style in visible]
    handles += kind_handles([line for line, _ in visible])
    handles += draw_front(axes, series) + draw_whiskers(axes, styled)
    if oracle is not None:
        draw_oracle(axes, oracle)
    if shown is not None:
        _limit(axes, series, oracle, shown)
    if scale != 1:
        scale_points(figure, handles, scale)
    if link is None:
        _add_legend(figure, handles, scale)
    figure.draw_without_rendering()  # settles the layout, so that pixels are known
    figure.set_layout_engine("none")
    marks = [(point.place, point.spread) for line in series for point in line.points]
    place_labels(axes, _labels(axes, styled, shown, scale), marks, scale)
    if link is not None:
        _add_links(axes, series, link)
    return figure, handles


def draw_validations(points: Sequence[tuple[float, ...]]) -> Figure:
    """Draw the (latency, quality) of every validation, joined in the order of training."""
    figure, (axes,) = make_panels(1, 1, *_NARROW)
    axes.set(xlabel="DAL (source words)", ylabel="BLEU")
    axes.set_title("every validation, in the order of training", fontsize=11, pad=14)
    axes.plot(*np.array(points).reshape(-1, 2).T, **line_styles([False])[0])
    for x, y in points[-1:]:
        axes.annotate("last", (x, y), xytext=(7, 7), textcoords="offset points")
    return figure


def _within(points: Sequence[Point], shown: Range | None) -> list[Point]:
    """Return the points whose quality is in a range."""
    return [point for point in points if shown is None or shown[0] <= point.quality <= shown[1]]


def _limit(axes: Axes, series: Sequence[Series], oracle: float | None, shown: Range) -> None:
    """Limit the axes to a range of quality, and to the latencies of simultaneous points in it."""
    simultaneous = [point for line in series if not line.offline for point in line.points]
    latencies = [point.latency for point in _within(simultaneous, shown)]
    latencies += [] if oracle is None else [oracle]
    least, most = min(latencies, default=0.0), max(latencies, default=1.0)
    room = 0.07 * (most - least) or 1.0
    axes.set(xlim=(least - room, most + room), ylim=shown)


def _add_legend(figure: Figure, handles: Sequence[Line2D], scale: float) -> None:
    """Draw the legend; a long legend makes the figure higher, not the axes lower."""
    draw_legend(figure, handles, scale)
    figure.set_layout_engine("none")  # the legend may not fit yet
    figure.draw_without_rendering()
    figure.set_layout_engine("constrained")
    high, usual = figure.legends[0].get_window_extent().height / DPI, figure.get_figheight()
    figure.set_figheight(usual + max(high - _LEGEND * usual, 0.0))


def _labels(
    axes: Axes, styled: Sequence[tuple[Series, Style]], shown: Range | None, scale: float
) -> list[Label]:
    """Return a label for each offline model and for each point of other models."""
    trained = [(line, style) for line, style in styled if not line.published]
    low, high = axes.get_ylim()
    labels = [
        ceiling_label(axes, line.best, f"{line.name} (ceiling)", scale)
        for line, _ in trained
        if line.offline and low <= line.best <= high
    ]
    for line, style in trained:
        for point in [] if line.offline else _within(line.points, shown):
            alone = len(line.points) == 1 < len(trained)
            if name := f"{line.name} {point.label}".strip() if alone else point.label:
                labels.append(point_label(axes, point.place, name, style["color"], scale))
    return labels


def _add_links(axes: Axes, series: Sequence[Series], link: Callable[[Point], str]) -> None:
    """Put an invisible link over each point that is not published."""
    points = [point for line in series if not line.published for point in line.points]
    xs, ys = [point.latency for point in points], [point.quality for point in points]
    targets = axes.scatter(xs, ys, s=200, alpha=0, zorder=9)
    targets.set_urls([link(point) for point in points])
