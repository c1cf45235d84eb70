"""Quality against latency as a picture: lines, the Pareto front, whiskers, the oracle, labels."""

from collections.abc import Sequence
from itertools import cycle
from typing import TypeAlias

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from simulmt.analysis.figures.labels import PlacedLabel, place_labels, point_label
from simulmt.analysis.figures.panels import draw_legend, lettering, make_panels
from simulmt.analysis.figures.style import DARK, GREY, MARKERS, Style, line_styles
from simulmt.analysis.tables.points import Point, Series, front_points

Styled: TypeAlias = Sequence[tuple[Series, Style]]
_HOLLOW: Style = {"markerfacecolor": "white", "markeredgewidth": 1.6}
_MARKS: dict[str, Style] = {"policy": _HOLLOW, "other": {"fillstyle": "left"}}
_PUBLISHED: Style = {"color": GREY, "linewidth": 1.0, "linestyle": (0, (2, 2)), "zorder": 2}
_PUBLISHED |= {"markersize": 5.5, "markerfacecolor": "white", "markeredgecolor": GREY}
_FRONT: Style = {"color": "#d3d3d3", "linewidth": 5, "solid_joinstyle": "round"}


@lettering()
def draw_curve(
    series: Sequence[Series],
    latency: str,
    quality: str = "BLEU",
    oracle: float | None = None,
    shown: tuple[float, float] | None = None,
    width: float = 7.0,
) -> Figure:
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
        quality: The label of the y axis.
        oracle: The latency of the oracle, if known; faster models have to guess.
        shown: The least and the greatest quality in the picture; None shows all. The picture is as
            wide as the shown simultaneous points need, and leaves out a series without one.
        width: In inches; the height is in proportion, and a long legend adds to it.
    """
    figure, (axes,) = make_panels(1, 1, width, width * 4.4 / 7)
    axes.set(xlabel=latency, ylabel=quality)
    axes.margins(x=0.07, y=0.1)
    axes.yaxis.set_major_locator(MaxNLocator(nbins=7, steps=[1, 2, 5, 10]))
    styled = [*zip(series, _series_styles(series), strict=True)]
    visible = [(line, style) for line, style in styled if _within(line.points, shown)]
    handles = [_draw_series(axes, line, style) for line, style in visible]
    handles += _kind_handles([line for line, _ in visible])
    handles += _draw_front(axes, series) + _draw_whiskers(axes, styled)
    if oracle is not None:
        axes.axvline(oracle, color=GREY, linewidth=1.4, dashes=(1, 2), zorder=1)
        above = axes.get_xaxis_transform()
        axes.text(oracle, 1.01, "oracle", size=9.5, color=DARK, ha="center", transform=above)
    if shown is not None:
        _limit(axes, series, oracle, shown)
    draw_legend(figure, handles)
    figure.draw_without_rendering()  # settles the layout, so that pixels are known
    figure.set_layout_engine("none")
    marks = [(point.place, point.spread) for line in series for point in line.points]
    place_labels(axes, _labels(axes, styled, shown), marks)
    return figure


def _within(points: Sequence[Point], shown: tuple[float, float] | None) -> list[Point]:
    """Return the points whose quality is in a range."""
    return [point for point in points if shown is None or shown[0] <= point.quality <= shown[1]]


def _limit(
    axes: Axes, series: Sequence[Series], oracle: float | None, shown: tuple[float, float]
) -> None:
    """Limit the axes to a range of quality, and to the latencies of simultaneous points in it."""
    simultaneous = [point for line in series if not line.offline for point in line.points]
    latencies = [point.latency for point in _within(simultaneous, shown)]
    latencies += [] if oracle is None else [oracle]
    least, most = min(latencies, default=0.0), max(latencies, default=1.0)
    room = 0.07 * (most - least) or 1.0
    axes.set(xlim=(least - room, most + room), ylim=shown)


def _labels(axes: Axes, styled: Styled, shown: tuple[float, float] | None) -> list[PlacedLabel]:
    """Return a label for each point of the models that are not offline."""
    trained, labels = [pair for pair in styled if not pair[0].published], list[PlacedLabel]()
    for line, style in (pair for pair in trained if not pair[0].offline):
        before = f"{line.name} " if len(line.points) == 1 < len(trained) else ""
        for point in _within(line.points, shown):
            if name := (before + point.label).strip():
                labels.append(point_label(axes, point.place, name, style["color"]))
    return labels


def _series_styles(series: Sequence[Series]) -> list[Style]:
    """Return the style of each series: a single point has no line, a published one is grey."""
    usual = iter(line_styles([line.offline for line in series if not line.published]))
    markers = cycle(reversed(MARKERS))
    styles = []
    for line in series:
        style = _PUBLISHED | {"marker": next(markers)} if line.published else next(usual)
        if line.kind in _MARKS:
            style |= _MARKS[line.kind] | {"markeredgecolor": style["color"]}
        styles.append(style if len(line.points) > 1 else style | {"linestyle": ""})
    return styles


def _draw_series(axes: Axes, series: Series, style: Style) -> Line2D:
    """Draw a series; returns its entry in the legend."""
    points = sorted(point.place for point in series.points)
    label = f"{series.name} ({series.about})" if series.about else series.name
    (line,) = axes.plot(*zip(*points, strict=True), label=label, **style)
    if not series.offline or series.published:
        return line
    ceiling: Style = {"color": GREY, "linewidth": 1.1, "linestyle": (0, (5, 3))}
    axes.axhline(max(point.quality for point in series.points), zorder=1, **ceiling)
    return Line2D([], [], **{**style, **ceiling, "label": label, "markerfacecolor": DARK})


def _kind_handles(series: Sequence[Series]) -> list[Line2D]:
    """Return the legend's entries for trained and for decode-time models, if there are any."""
    kinds = {line.kind for line in series if not line.offline}
    style: Style = {"color": DARK, "linestyle": "", "marker": "o", "markersize": 7.5}
    trained = Line2D([], [], **style, label="trained policy")
    policy = Line2D([], [], **style, **_HOLLOW, label="decode-time policy")
    return [trained] * ("trained" in kinds) + [policy] if "policy" in kinds else []


def _draw_front(axes: Axes, series: Sequence[Series]) -> list[Line2D]:
    """Draw a halo around each point of the front, and steps between; returns the legend's entry.

    Points that are on the front only because of their seeds are below the steps.
    """
    front = front_points(series)
    if not front:
        return []
    xs, ys = zip(*(point.place for point in front), strict=True)
    axes.scatter(xs, ys, s=230, color=_FRONT["color"], linewidths=0, zorder=0.6)
    best = np.maximum.accumulate(ys)
    axes.plot(np.repeat(xs, 2)[1:], np.repeat(best, 2)[:-1], zorder=0.5, **_FRONT)
    seeds = any(point.spread != (0, 0) for line in series for point in line.points)
    label = "Pareto front, within 1 s.d." if seeds else "Pareto front"
    return [Line2D([], [], marker="o", markersize=13, label=label, **_FRONT)]


def _draw_whiskers(axes: Axes, styled: Styled) -> list[Line2D]:
    """Draw standard deviations of points with several seeds; returns the legend's entry."""
    spread = [(p, style["color"]) for line, style in styled for p in line.points if any(p.spread)]
    for point, colour in spread:
        (x, y), (across, up) = point.place, point.spread
        xs, ys = [x - across, x + across, np.nan, x, x], [y, y, np.nan, y - up, y + up]
        axes.plot(xs, ys, color=colour, linewidth=1.0, zorder=2.5)
    cross: Style = {"color": DARK, "linestyle": "", "marker": "+", "markersize": 14}
    return [Line2D([], [], **cross, label="± s.d. over seeds")] if spread else []
