"""Quality against latency as a picture: one line for each mechanism."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from simulmt.analysis.labels import ceiling_label, place_labels, point_label
from simulmt.analysis.pareto import pareto_front
from simulmt.analysis.style import (
    DARK,
    DPI,
    GREY,
    MARKERS,
    draw_legend,
    line_styles,
    plain_axes,
    save,
)

_WIDE, _NARROW = (7.0, 4.4), (5.4, 4.0)  # inches: for print, for a column of a page
_LEGEND = 0.75  # inches that the wide one has for its legend
_FRONT = "#d3d3d3"


@dataclass(frozen=True)
class Point:
    """A model, or several that differ in the seed alone.

    Attributes:
        latency: The mean.
        quality: The mean.
        label: What to write beside it.
        spread: Standard deviations of latency and quality; 0 for one model.
        runs: The models' folders.
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
        name: What the legend says.
        points: At least one.
        offline: Whether they read the whole sentence first.
        published: Whether somebody else's; then no part of the Pareto front.
    """

    name: str
    points: Sequence[Point]
    offline: bool = False
    published: bool = False

    @property
    def best(self) -> float:
        """The highest quality."""
        return max(point.quality for point in self.points)


def draw_curve(
    series: Sequence[Series],
    paths: Sequence[Path],
    *,
    latency: str,
    oracle: float | None = None,
    shown: tuple[float, float] | None = None,
) -> None:
    """Write a picture of quality against latency; see `make_curve`.

    Args:
        series: What to draw.
        paths: Where to write it; each suffix (.png, .svg) says which kind. The same series give the
            same bytes.
        latency: What the x axis says.
        oracle: The latency below which a model would have to guess, if known.
        shown: The least and the greatest quality in the picture; None: all.
    """
    save(make_curve(series, latency=latency, oracle=oracle, shown=shown)[0], paths)


def make_curve(
    series: Sequence[Series],
    *,
    latency: str,
    oracle: float | None = None,
    shown: tuple[float, float] | None = None,
    page: Callable[[Point], str] | None = None,
) -> tuple[Figure, list[Line2D]]:
    """Draw quality against latency.

    A mechanism with several points is a line, in the order of latency, with a colour, a marker and
    dashes of its own; an offline one is a horizontal line besides its points; a published one has
    hollow markers and no labels. Whiskers are standard deviations over seeds. The Pareto front is
    a grey band in steps: the best quality that can be had within a latency. A point is labelled
    with its dial, or with its mechanism if that has no other point; without room it has no label.

    Args:
        series: At least one, with at least one point in all.
        latency: What the x axis says.
        oracle: The latency below which a model would have to guess, if known.
        shown: The least and the greatest quality in the picture, which is then as wide as the
            simultaneous points between them need; a series without a point there is left out.
            None: all.
        page: For a column of a page, which has a legend of its own: where a click on a point leads.

    Returns:
        The figure, and the entries of its legend.
    """
    figure = Figure(figsize=_WIDE if page is None else _NARROW, dpi=DPI, layout="constrained")
    axes = _make_axes(figure, latency)
    styles = _styles(series)
    handles = [
        _draw(axes, one, style)
        for one, style in zip(series, styles, strict=True)
        if shown is None or _within(one.points, shown)
    ]
    handles += _draw_front(axes, series) + _whiskers(axes, series, styles)
    if oracle is not None:
        axes.axvline(oracle, color=GREY, linewidth=1.4, dashes=(1, 2), zorder=1)
        above = axes.get_xaxis_transform()
        axes.text(oracle, 1.01, "oracle", fontsize=9.5, color=DARK, ha="center", transform=above)
    if shown is not None:
        _look_at(axes, series, shown, oracle)
    if page is None:
        _add_legend(figure, handles)
    figure.draw_without_rendering()  # settles the layout, so that pixels are known
    figure.set_layout_engine("none")
    _write_labels(axes, series, styles)
    if page is not None:
        _add_links(axes, series, page)
    return figure, handles


def front_points(series: Sequence[Series]) -> list[Point]:
    """The points on the Pareto front of the simultaneous ones, in the order of latency."""
    points = [point for one in series if not (one.offline or one.published) for point in one.points]
    front = pareto_front([(point.latency, point.quality) for point in points])
    chosen = [point for point, on_it in zip(points, front, strict=True) if on_it]
    return sorted(chosen, key=lambda point: point.latency)


def _make_axes(figure: Figure, latency: str) -> Axes:
    axes = figure.add_subplot()
    axes.set_xlabel(latency, fontsize=11)
    axes.set_ylabel("BLEU", fontsize=11)
    axes.margins(x=0.07, y=0.1)
    plain_axes(axes)
    axes.yaxis.set_major_locator(MaxNLocator(nbins=7, steps=[1, 2, 5, 10]))
    return axes


def _look_at(
    axes: Axes, series: Sequence[Series], shown: tuple[float, float], oracle: float | None
) -> None:
    simultaneous = [point for one in series if not one.offline for point in one.points]
    inside = [point.latency for point in _within(simultaneous, shown)]
    inside += [] if oracle is None else [oracle]
    least, most = min(inside, default=0.0), max(inside, default=1.0)
    room = 0.07 * (most - least) or 1.0
    axes.set(xlim=(least - room, most + room), ylim=shown)


def _within(points: Sequence[Point], shown: tuple[float, float]) -> list[Point]:
    return [point for point in points if shown[0] <= point.quality <= shown[1]]


def _add_legend(figure: Figure, handles: Sequence[Line2D]) -> None:
    """A long one makes the figure higher, not the axes lower."""
    draw_legend(figure, handles)
    figure.set_layout_engine("none")  # it may not fit as yet
    figure.draw_without_rendering()
    figure.set_layout_engine("constrained")
    high = figure.legends[0].get_window_extent().height / DPI
    figure.set_figheight(figure.get_figheight() + max(high - _LEGEND, 0.0))


def _styles(series: Sequence[Series]) -> list[dict[str, Any]]:
    """A point alone has no line; published lines are grey, thin and hollow."""
    ours = [one for one in series if not one.published]
    own = iter(line_styles([one.offline for one in ours]))
    styles, published = list[dict[str, Any]](), 0
    for one in series:
        if one.published:
            style = {"color": GREY, "linewidth": 1.0, "markersize": 5.5, "zorder": 2}
            style |= {"marker": MARKERS[-1 - published % len(MARKERS)], "linestyle": (0, (2, 2))}
            style |= {"markerfacecolor": "white", "markeredgecolor": GREY}
            published += 1
        else:
            style = next(own)
        if len(one.points) < 2:
            style["linestyle"] = ""
        styles.append(style)
    return styles


def _draw_front(axes: Axes, series: Sequence[Series]) -> list[Line2D]:
    """A halo around each point of the front, and steps from one to the next; the legend's entry."""
    front = front_points(series)
    if not front:
        return []
    xs, ys = [point.latency for point in front], [point.quality for point in front]
    axes.scatter(xs, ys, s=230, color=_FRONT, linewidths=0, zorder=0.6)
    band: dict[str, Any] = {"color": _FRONT, "linewidth": 5, "solid_joinstyle": "round"}
    across, up = [xs[0]], [ys[0]]
    for x, y in zip(xs[1:], ys[1:], strict=True):
        across, up = [*across, x, x], [*up, up[-1], y]
    axes.plot(across, up, zorder=0.5, **band)
    return [Line2D([], [], marker="o", markersize=13, label="Pareto front", **band)]


def _draw(axes: Axes, series: Series, style: dict[str, Any]) -> Line2D:
    """One mechanism; returns its entry in the legend."""
    points = sorted((point.latency, point.quality) for point in series.points)
    (line,) = axes.plot(*zip(*points, strict=True), label=series.name, **style)
    if not series.offline or series.published:
        return line
    ceiling: dict[str, Any] = {"color": GREY, "linewidth": 1.1, "linestyle": (0, (5, 3))}
    axes.axhline(series.best, zorder=1, **ceiling)
    ceiling |= {"label": f"{series.name} (offline)", "markerfacecolor": DARK}
    return Line2D([], [], **style | ceiling)


def _whiskers(
    axes: Axes, series: Sequence[Series], styles: Sequence[dict[str, Any]]
) -> list[Line2D]:
    """Standard deviations over seeds, where there are several; the legend's entry."""
    drawn = False
    for one, style in zip(series, styles, strict=True):
        look = {"color": style["color"], "linewidth": 1.0, "zorder": 2.5}
        for point in one.points:
            x, y, (across, up) = point.latency, point.quality, point.spread
            if across or up:
                axes.plot([x - across, x + across], [y, y], **look)
                axes.plot([x, x], [y - up, y + up], **look)
                drawn = True
    entry: dict[str, Any] = {"color": DARK, "linewidth": 1.0, "marker": "+", "markersize": 14}
    return [Line2D([], [], linestyle="", label="± s.d. over seeds", **entry)] if drawn else []


def _write_labels(axes: Axes, series: Sequence[Series], styles: Sequence[dict[str, Any]]) -> None:
    ours = [(o, s) for o, s in zip(series, styles, strict=True) if not o.published]
    shown = axes.get_ylim()
    labels = [
        ceiling_label(axes, one.best, f"{one.name} (offline)")
        for one, _ in ours
        if one.offline and shown[0] <= one.best <= shown[1]
    ]
    for one, style in ours:
        for point in _within(one.points, shown):
            name = f"{one.name} {point.label}" if len(one.points) == 1 < len(ours) else point.label
            if name and not one.offline:
                place = (point.latency, point.quality)
                labels.append(point_label(axes, place, name, style["color"]))
    place_labels(axes, labels, [(p.latency, p.quality) for one in series for p in one.points])


def _add_links(axes: Axes, series: Sequence[Series], link: Callable[[Point], str]) -> None:
    """Something that cannot be seen, but clicked on, over each point of ours."""
    points = [point for one in series if not one.published for point in one.points]
    xs, ys = [point.latency for point in points], [point.quality for point in points]
    targets = axes.scatter(xs, ys, s=200, alpha=0, zorder=9)
    targets.set_urls([link(point) for point in points])
