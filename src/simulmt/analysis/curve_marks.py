"""What a quality-latency curve shows: lines, the Pareto front, whiskers, the oracle."""

from collections.abc import Sequence
from itertools import cycle
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from simulmt.analysis.points import Series, front_points
from simulmt.analysis.style import DARK, GREY, MARKERS, Style, line_styles

_HOLLOW: Style = {"markerfacecolor": "white", "markeredgewidth": 1.6}
_FRONT: Style = {"color": "#d3d3d3", "linewidth": 5, "solid_joinstyle": "round"}


def series_styles(series: Sequence[Series]) -> list[Style]:
    """Return the style of each series: a single point has no line, a published one is grey."""
    usual = iter(line_styles([line.offline for line in series if not line.published]))
    published = cycle(reversed(MARKERS))
    styles = []
    for line in series:
        if line.published:
            style = {"color": GREY, "linewidth": 1.0, "markersize": 5.5, "zorder": 2,
                     "marker": next(published)}  # fmt: skip
            style |= {"linestyle": (0, (2, 2)), "markerfacecolor": "white", "markeredgecolor": GREY}
        else:
            style = next(usual)
        if line.kind == "policy":
            style |= _HOLLOW | {"markeredgecolor": style["color"]}
        if line.kind == "other":
            style |= {"fillstyle": "left", "markeredgecolor": style["color"]}
        styles.append(style if len(line.points) > 1 else style | {"linestyle": ""})
    return styles


def draw_series(axes: Axes, series: Series, style: Style) -> Line2D:
    """Draw a series; returns its entry in the legend."""
    points = sorted(point.place for point in series.points)
    label = f"{series.name} ({series.about})" if series.about else series.name
    (line,) = axes.plot(*zip(*points, strict=True), label=label, **style)
    if not series.offline or series.published:
        return line
    ceiling: dict[str, Any] = {"color": GREY, "linewidth": 1.1, "linestyle": (0, (5, 3))}
    axes.axhline(series.best, zorder=1, **ceiling)
    return Line2D([], [], **{**style, **ceiling, "label": label, "markerfacecolor": DARK})


def kind_handles(series: Sequence[Series]) -> list[Line2D]:
    """Return the legend's entries for trained and for decode-time models, if there are both."""
    kinds = {line.kind for line in series if not line.offline}
    if "policy" not in kinds:
        return []
    style: Style = {"color": DARK, "linestyle": "", "marker": "o", "markersize": 7.5}
    policy = Line2D([], [], **style, **_HOLLOW, label="decode-time policy")
    trained = Line2D([], [], **style, label="trained policy")
    return [trained, policy] if "trained" in kinds else [policy]


def draw_front(axes: Axes, series: Sequence[Series]) -> list[Line2D]:
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


def draw_whiskers(axes: Axes, styled: Sequence[tuple[Series, Style]]) -> list[Line2D]:
    """Draw standard deviations of points with several seeds; returns the legend's entry."""
    handles: list[Line2D] = []
    for line, style in styled:
        for point in line.points:
            (x, y), (across, up) = point.place, point.spread
            if across or up:
                xs, ys = [x - across, x + across, np.nan, x, x], [y, y, np.nan, y - up, y + up]
                axes.plot(xs, ys, color=style["color"], linewidth=1.0, zorder=2.5)
                handles = [Line2D([], [], color=DARK, linestyle="", marker="+", markersize=14,
                                  label="± s.d. over seeds")]  # fmt: skip
    return handles


def draw_oracle(axes: Axes, latency: float) -> None:
    """Draw the latency of the oracle, an upright line."""
    axes.axvline(latency, color=GREY, linewidth=1.4, dashes=(1, 2), zorder=1)
    axes.text(latency, 1.01, "oracle", fontsize=9.5, color=DARK, ha="center",
              transform=axes.get_xaxis_transform())  # fmt: skip
