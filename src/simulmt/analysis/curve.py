"""Quality against latency as a picture: one line for each mechanism."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patheffects import withStroke
from matplotlib.text import Text
from matplotlib.ticker import MaxNLocator
from numpy.typing import NDArray

from simulmt.analysis.style import DARK, DPI, GREY, draw_legend, line_styles, plain_axes, save

_PIXEL = DPI / 72  # per point
_GAP, _REACH = 6.0, (0.0, 7.0, 16.0, 27.0)  # points between a marker and its label, and more

Pixels: TypeAlias = NDArray[np.float64]


@dataclass(frozen=True)
class Point:
    """A model: its latency, its quality, and what to write beside it."""

    latency: float
    quality: float
    label: str = ""


@dataclass(frozen=True)
class Series:
    """The models of one mechanism; those that read the whole sentence first are `offline`."""

    name: str
    points: Sequence[Point]
    offline: bool = False

    @property
    def best(self) -> float:
        """The highest quality."""
        return max(point.quality for point in self.points)


@dataclass
class _Label:
    """A text and its marker; the boxes (N, 4) it could fill, in pixels, and what each costs."""

    text: Text
    marker: Pixels
    places: Pixels
    costs: Pixels
    leader: bool
    box: Pixels | None = None


def draw_curve(
    series: Sequence[Series], paths: Sequence[Path], *, latency: str, oracle: float | None = None
) -> None:
    """Draw quality against latency.

    A mechanism with several points is a line, in the order of latency, with a colour, a marker and
    dashes of its own; an offline one is a horizontal line besides its points. A label for which
    there is no room is left out.

    Args:
        series: At least one, with at least one point in all.
        paths: Where to write the picture; each suffix (.png, .svg) says which kind. The same series
            give the same bytes.
        latency: What the x axis says.
        oracle: The latency below which a model would have to guess, if known.
    """
    figure = Figure(figsize=(7, 4.4), dpi=DPI, layout="constrained")
    axes = _make_axes(figure, latency)
    styles = _styles(series)
    draw_legend(figure, [_draw(axes, *one) for one in zip(series, styles, strict=True)])
    if oracle is not None:
        axes.axvline(oracle, color=GREY, linewidth=1.4, dashes=(1, 2), zorder=1)
        above = axes.get_xaxis_transform()
        axes.text(oracle, 1.01, "oracle", fontsize=9.5, color=DARK, ha="center", transform=above)
    figure.draw_without_rendering()  # settles the layout, so that pixels are known
    figure.set_layout_engine("none")
    _write_labels(axes, series, styles)
    save(figure, paths)


def _make_axes(figure: Figure, latency: str) -> Axes:
    axes = figure.add_subplot()
    axes.set_xlabel(latency, fontsize=11)
    axes.set_ylabel("BLEU", fontsize=11)
    axes.margins(x=0.07, y=0.1)
    plain_axes(axes)
    axes.yaxis.set_major_locator(MaxNLocator(nbins=7, steps=[1, 2, 5, 10]))
    return axes


def _styles(series: Sequence[Series]) -> list[dict[str, Any]]:
    """A point alone has no line."""
    styles = line_styles([one.offline for one in series])
    for one, style in zip(series, styles, strict=True):
        style["linestyle"] = style["linestyle"] if len(one.points) > 1 else ""
    return styles


def _draw(axes: Axes, series: Series, style: dict[str, Any]) -> Line2D:
    """One mechanism; returns its entry in the legend."""
    points = sorted((point.latency, point.quality) for point in series.points)
    (line,) = axes.plot(*zip(*points, strict=True), label=series.name, **style)
    if not series.offline:
        return line
    ceiling: dict[str, Any] = {"color": GREY, "linewidth": 1.1, "linestyle": (0, (5, 3))}
    axes.axhline(series.best, zorder=1, **ceiling)
    ceiling |= {"label": f"{series.name} (offline)", "markerfacecolor": DARK}
    return Line2D([], [], **style | ceiling)


def _text(axes: Axes, text: str, colour: str) -> tuple[Text, Pixels]:
    """A label that has no place yet, and half its size in pixels."""
    made = axes.text(0, 0, text, fontsize=9.5, color=colour, zorder=5, parse_math=False)
    made.set(ha="center", va="center", transform=None)
    made.set_in_layout(False)
    made.set_path_effects([withStroke(linewidth=2.5, foreground="white")])
    box = made.get_window_extent()
    return made, np.array([box.width / 2 + 2, box.height / 2])


def _write_labels(axes: Axes, series: Sequence[Series], styles: Sequence[dict[str, Any]]) -> None:
    """Give each label the place that hides least, looking at all of them three times."""
    frame: Pixels = np.array(axes.get_window_extent().extents)
    drawn = np.array([(point.latency, point.quality) for one in series for point in one.points])
    marks = axes.transData.transform(drawn)
    taken = [*np.hstack([marks - 4.5 * _PIXEL, marks + 4.5 * _PIXEL])]
    spots = np.concatenate([_along(line) for line in axes.lines])
    labels = [_ceiling_label(axes, frame, one) for one in series if one.offline]
    for one, style in zip(series, styles, strict=True):
        labels += [_point_label(axes, point, style["color"]) for point in one.points if point.label]
    for label in labels:
        label.costs = label.costs + 6 * _count(label.places, spots)
        outside = _overlap(label.places, label.places) - _overlap(label.places, frame)
        label.costs += 1000 * (outside + sum(_overlap(label.places, box) for box in taken))
    for _ in range(3):
        for label in labels:
            others = [o.box for o in labels if o is not label and o.box is not None]
            costs = label.costs + 1000 * sum(_overlap(label.places, box) for box in others)
            best = int(costs.argmin())
            label.box = label.places[best] if costs[best] < 1000 * _PIXEL**2 else None
    for label in labels:
        _settle(label, axes)


def _settle(label: _Label, axes: Axes) -> None:
    """Move the text to its place; a line leads to its marker if that is not beside it."""
    if label.box is None:
        label.text.remove()
        return
    inverse = axes.transData.inverted()
    low, high = label.box[:2], label.box[2:]
    label.text.set(transform=axes.transData, position=inverse.transform((low + high) / 2))
    near = np.clip(label.marker, low, high)
    distance = math.dist(near, label.marker)
    if label.leader and distance > 10 * _PIXEL:
        end = label.marker + (near - label.marker) * 4.5 * _PIXEL / distance
        xs, ys = inverse.transform(np.array([near, end])).T
        axes.plot(xs, ys, color=label.text.get_color(), linewidth=0.6, zorder=2)


def _point_label(axes: Axes, point: Point, colour: str) -> _Label:
    """Around the marker, close to it if possible, best above or below."""
    text, half = _text(axes, point.label, colour)
    marker = axes.transData.transform((point.latency, point.quality))
    extra, angle = np.meshgrid(_REACH, np.arange(24) * np.pi / 12, indexing="ij")
    direction = np.stack([np.cos(angle), np.sin(angle)], -1).reshape(-1, 2)
    direction /= abs(direction).max(axis=1, keepdims=True)  # on a square
    middle = marker + direction * (half + (_GAP + extra.reshape(-1, 1)) * _PIXEL)
    costs = 4 * extra.reshape(-1) + 3 * abs(direction[:, 0])
    return _Label(text, marker, np.hstack([middle - half, middle + half]), costs, leader=True)


def _ceiling_label(axes: Axes, frame: Pixels, series: Series) -> _Label:
    """Above the line or below, best at its right end."""
    text, half = _text(axes, f"{series.name} (offline)", DARK)
    marker = axes.transData.transform((axes.get_xlim()[1], series.best))
    left, side = np.meshgrid(np.linspace(0, frame[2] - frame[0] - 2 * half[0], 60), (1, -1))
    shift = np.stack([-half[0] - left, side * (half[1] + 1.5 * _PIXEL)], -1).reshape(-1, 2)
    costs = left.reshape(-1) / 10 + 40 * (shift[:, 1] < 0)
    places = np.hstack([marker + shift - half, marker + shift + half])
    return _Label(text, marker, places, costs, leader=False)


def _overlap(boxes: Pixels, other: Pixels) -> Pixels:
    """Shared area, box by box."""
    low, high = np.maximum(boxes, other)[..., :2], np.minimum(boxes, other)[..., 2:]
    return np.asarray(np.clip(high - low, 0, None).prod(axis=-1))


def _count(boxes: Pixels, spots: Pixels) -> Pixels:
    """How many spots lie in each box or right beside it."""
    inside = (spots > boxes[:, None, :2] - 3) & (spots < boxes[:, None, 2:] + 3)
    return np.asarray(inside.all(axis=-1).sum(axis=-1), dtype=np.float64)


def _along(line: Line2D) -> Pixels:
    """Spots on a line, a few pixels apart."""
    corners = line.get_transform().transform(np.asarray(line.get_xydata()))
    pairs = pairwise([corners[0], *corners])
    return np.concatenate([np.linspace(a, b, max(int(math.dist(a, b) / 4), 2)) for a, b in pairs])
