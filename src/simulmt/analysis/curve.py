"""Quality against latency as a picture: one line for each mechanism."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from simulmt.analysis.labels import Label, ceiling_label, place_labels, point_label
from simulmt.analysis.pareto import pareto_front
from simulmt.analysis.style import (
    DARK,
    DPI,
    GREY,
    MARKERS,
    Style,
    draw_legend,
    line_styles,
    make_panels,
)

_WIDE, _NARROW = (7.0, 4.4), (5.4, 4.0)  # inches: for print, for a column of a page
_LEGEND = 0.75  # inches of the wide figure that its legend may fill
_FRONT: Style = {"color": "#d3d3d3", "linewidth": 5, "solid_joinstyle": "round"}


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


@dataclass(frozen=True)
class Series:
    """The models of one mechanism.

    Attributes:
        name: The name in the legend.
        points: At least one point.
        offline: Whether the models read the whole sentence first.
        published: Whether the figures are published ones; these are no part of the Pareto front.
    """

    name: str
    points: Sequence[Point]
    offline: bool = False
    published: bool = False

    @property
    def best(self) -> float:
        """The highest quality."""
        return max(point.quality for point in self.points)


@dataclass(frozen=True)
class Curve:
    """What a picture of quality against latency shows.

    Attributes:
        series: At least one series, with at least one point in all.
        latency: The label of the x axis.
        oracle: The latency below which a model would have to guess, if known.
        shown: The least and the greatest quality in the picture. The picture is then as wide as the
            simultaneous points between them need, and a series without a point there is left out.
            None shows all.
    """

    series: Sequence[Series]
    latency: str
    oracle: float | None = None
    shown: tuple[float, float] | None = None

    def within(self, points: Sequence[Point]) -> list[Point]:
        """The points whose quality is shown."""
        low, high = self.shown or (-float("inf"), float("inf"))
        return [point for point in points if low <= point.quality <= high]


def draw_curve(
    curve: Curve, link: Callable[[Point], str] | None = None
) -> tuple[Figure, list[Line2D]]:
    """Draw quality against latency.

    A mechanism with several points is a line, in the order of latency, with a colour, a marker and
    dashes of its own. An offline mechanism has a horizontal line besides its points. Published
    points are hollow and have no labels. Whiskers are standard deviations over seeds. The Pareto
    front is a grey band in steps: the best quality within a latency. A point's label is its dial,
    or its mechanism if that has no other point; a label without room is left out.

    Args:
        curve: What to draw.
        link: For a page, which has a legend of its own: the address that a point links to.

    Returns:
        The figure, and the entries of its legend.
    """
    figure, (axes,) = make_panels(1, 1, *(_WIDE if link is None else _NARROW))
    axes.set(xlabel=curve.latency, ylabel="BLEU")
    axes.margins(x=0.07, y=0.1)
    axes.yaxis.set_major_locator(MaxNLocator(nbins=7, steps=[1, 2, 5, 10]))
    styled = [*zip(curve.series, _styles(curve.series), strict=True)]
    handles = [_draw(axes, line, style) for line, style in styled if curve.within(line.points)]
    handles += _draw_front(axes, curve.series) + _draw_whiskers(axes, styled)
    if curve.oracle is not None:
        axes.axvline(curve.oracle, color=GREY, linewidth=1.4, dashes=(1, 2), zorder=1)
        axes.text(curve.oracle, 1.01, "oracle", fontsize=9.5, color=DARK, ha="center",
                  transform=axes.get_xaxis_transform())  # fmt: skip
    if curve.shown is not None:
        _limit(axes, curve, curve.shown)
    if link is None:
        _add_legend(figure, handles)
    figure.draw_without_rendering()  # settles the layout, so that pixels are known
    figure.set_layout_engine("none")
    places = [(point.latency, point.quality) for line in curve.series for point in line.points]
    place_labels(axes, _labels(axes, curve, styled), places)
    if link is not None:
        _add_links(axes, curve.series, link)
    return figure, handles


def front_points(series: Sequence[Series]) -> list[Point]:
    """The points on the Pareto front of the simultaneous models, in the order of latency."""
    ours = [line for line in series if not (line.offline or line.published)]
    points = [point for line in ours for point in line.points]
    front = pareto_front([(point.latency, point.quality) for point in points])
    on_front = [point for point, on_it in zip(points, front, strict=True) if on_it]
    return sorted(on_front, key=lambda point: point.latency)


def _limit(axes: Axes, curve: Curve, shown: tuple[float, float]) -> None:
    """Show the given quality, and the latencies of the simultaneous points that have it."""
    simultaneous = [point for line in curve.series if not line.offline for point in line.points]
    latencies = [point.latency for point in curve.within(simultaneous)]
    latencies += [] if curve.oracle is None else [curve.oracle]
    least, most = min(latencies, default=0.0), max(latencies, default=1.0)
    room = 0.07 * (most - least) or 1.0
    axes.set(xlim=(least - room, most + room), ylim=shown)


def _add_legend(figure: Figure, handles: Sequence[Line2D]) -> None:
    """A long legend makes the figure higher, not the axes lower."""
    draw_legend(figure, handles)
    figure.set_layout_engine("none")  # the legend may not fit yet
    figure.draw_without_rendering()
    figure.set_layout_engine("constrained")
    high = figure.legends[0].get_window_extent().height / DPI
    figure.set_figheight(figure.get_figheight() + max(high - _LEGEND, 0.0))


def _styles(series: Sequence[Series]) -> list[Style]:
    """A single point has no line; published lines are grey, thin and hollow."""
    own = iter(line_styles([line.offline for line in series if not line.published]))
    published = iter(range(len(series)))
    styles = []
    for line in series:
        if line.published:
            style = {"color": GREY, "linewidth": 1.0, "markersize": 5.5, "zorder": 2}
            style |= {"marker": MARKERS[-1 - next(published) % len(MARKERS)]}
            style |= {"linestyle": (0, (2, 2)), "markerfacecolor": "white", "markeredgecolor": GREY}
        else:
            style = next(own)
        styles.append(style if len(line.points) > 1 else style | {"linestyle": ""})
    return styles


def _draw(axes: Axes, series: Series, style: Style) -> Line2D:
    """Draw one mechanism; returns its entry in the legend."""
    points = sorted((point.latency, point.quality) for point in series.points)
    (line,) = axes.plot(*zip(*points, strict=True), label=series.name, **style)
    if not series.offline or series.published:
        return line
    ceiling: dict[str, Any] = {"color": GREY, "linewidth": 1.1, "linestyle": (0, (5, 3))}
    axes.axhline(series.best, zorder=1, **ceiling)
    ceiling |= {"label": f"{series.name} (offline)", "markerfacecolor": DARK}
    return Line2D([], [], **{**style, **ceiling})


def _draw_front(axes: Axes, series: Sequence[Series]) -> list[Line2D]:
    """A halo around each point of the front, and steps between them; the legend's entry."""
    front = [(point.latency, point.quality) for point in front_points(series)]
    if not front:
        return []
    xs, ys = zip(*front, strict=True)
    axes.scatter(xs, ys, s=230, color=_FRONT["color"], linewidths=0, zorder=0.6)
    axes.plot(np.repeat(xs, 2)[1:], np.repeat(ys, 2)[:-1], zorder=0.5, **_FRONT)
    return [Line2D([], [], marker="o", markersize=13, label="Pareto front", **_FRONT)]


def _draw_whiskers(axes: Axes, styled: Sequence[tuple[Series, Style]]) -> list[Line2D]:
    """Standard deviations over seeds, where there are several; the legend's entry."""
    handles: list[Line2D] = []
    for line, style in styled:
        for point in line.points:
            x, y, (across, up) = point.latency, point.quality, point.spread
            if across or up:
                xs, ys = [x - across, x + across, np.nan, x, x], [y, y, np.nan, y - up, y + up]
                axes.plot(xs, ys, color=style["color"], linewidth=1.0, zorder=2.5)
                handles = [Line2D([], [], color=DARK, linestyle="", marker="+", markersize=14,
                                  label="± s.d. over seeds")]  # fmt: skip
    return handles


def _labels(axes: Axes, curve: Curve, styled: Sequence[tuple[Series, Style]]) -> list[Label]:
    """A label for each offline mechanism and for each point of the others."""
    ours = [(line, style) for line, style in styled if not line.published]
    low, high = axes.get_ylim()
    labels = [
        ceiling_label(axes, line.best, f"{line.name} (offline)")
        for line, _ in ours
        if line.offline and low <= line.best <= high
    ]
    for line, style in ours:
        for point in [] if line.offline else curve.within(line.points):
            alone = len(line.points) == 1 < len(ours)
            if name := f"{line.name} {point.label}" if alone else point.label:
                place = (point.latency, point.quality)
                labels.append(point_label(axes, place, name, style["color"]))
    return labels


def _add_links(axes: Axes, series: Sequence[Series], link: Callable[[Point], str]) -> None:
    """An invisible link over each point of ours."""
    points = [point for line in series if not line.published for point in line.points]
    xs, ys = [point.latency for point in points], [point.quality for point in points]
    targets = axes.scatter(xs, ys, s=200, alpha=0, zorder=9)
    targets.set_urls([link(point) for point in points])
