"""Quality against latency as a picture: one line for each mechanism."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patheffects import withStroke
from matplotlib.text import Text
from matplotlib.ticker import MaxNLocator
from numpy.typing import NDArray

_COLOURS = "#0b5fa5 #c2410c #00795c #8e3a86 #7a5200 #3f3fa8 #a31545 #3d6b1f".split()
_MARKERS = "osD^vPXph"  # one more than colours: the combinations repeat late
_DASHES = [(), (7, 2), (7, 2, 1.5, 2), (2.5, 1.2), (1, 1), (7, 2, 1.5, 2, 1.5, 2), (11, 3),
           (4, 1.5, 4, 1.5, 1, 1.5)]  # fmt: skip
_GREY, _DARK = "#6b6b6b", "#1a1a1a"
_DPI, _GAP, _REACH = 150, 6.0, (0.0, 7.0, 16.0, 27.0)  # points between a marker and its label


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


class _Box(NamedTuple):
    """In pixels."""

    left: float
    bottom: float
    right: float
    top: float

    def overlap(self, other: _Box) -> float:
        width = min(self.right, other.right) - max(self.left, other.left)
        height = min(self.top, other.top) - max(self.bottom, other.bottom)
        return max(width, 0.0) * max(height, 0.0)

    def area(self) -> float:
        return (self.right - self.left) * (self.top - self.bottom)

    def count(self, spots: NDArray[np.float64]) -> int:
        x, y = spots[:, 0], spots[:, 1]
        inside = (x > self.left) & (x < self.right) & (y > self.bottom) & (y < self.top)
        return int(inside.sum())


@dataclass
class _Label:
    """A text, and the places it could go to, each with what that costs."""

    text: Text
    target: tuple[float, float]
    places: list[tuple[_Box, float]]
    leader: bool
    box: _Box | None = None


@dataclass
class _Picture:
    """Axes, and what labels should stay clear of."""

    axes: Axes
    marked: list[tuple[float, float]] = field(default_factory=list)
    lines: list[Line2D] = field(default_factory=list)
    texts: list[tuple[Text, Point]] = field(default_factory=list)
    ceilings: list[tuple[Text, float]] = field(default_factory=list)


def draw_curve(
    series: Sequence[Series], paths: Sequence[Path], *, latency: str, oracle: float | None = None
) -> None:
    """Draw quality against latency.

    A mechanism with several points is a line, in the order of latency, with a colour, a marker and
    dashes of its own; an offline one is a horizontal line besides its points. A label for which
    there is no room is left out.

    Args:
        series: At least one, with at least one point in all.
        paths: Where to write the picture; each suffix (.png, .svg, .pdf) says which kind. The same
            series give the same bytes.
        latency: What the x axis says.
        oracle: The latency below which a model would have to guess, if known.
    """
    figure = Figure(figsize=(7, 4.4), dpi=_DPI, layout="constrained")
    canvas = FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    axes.set_xlabel(latency, fontsize=11)
    axes.set_ylabel("BLEU", fontsize=11)
    axes.margins(x=0.07, y=0.1)
    axes.grid(color="#e6e6e6", linewidth=0.6)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    axes.yaxis.set_major_locator(MaxNLocator(nbins=7, steps=[1, 2, 5, 10]))
    picture = _Picture(axes)
    handles = [_draw(picture, one, i) for i, one in enumerate(series)]
    if oracle is not None:
        _draw_oracle(picture, oracle)
    legend = figure.legend(
        handles=handles, loc="outside upper center", ncols=min(len(handles), 4), frameon=False,
        fontsize=10, handlelength=3.6, columnspacing=1.8,
    )  # fmt: skip
    for text in legend.get_texts():
        text.set_parse_math(False)
    figure.draw_without_rendering()  # settles the layout, so that pixels are known
    figure.set_layout_engine("none")
    _write_labels(picture, canvas)
    # the same runs give the same bytes: no date and no random names in an SVG
    with rc_context({"svg.hashsalt": "simulmt"}):
        for path in paths:
            figure.savefig(path, dpi=_DPI, metadata={"Date": None} if path.suffix == ".svg" else {})


def _draw(picture: _Picture, series: Series, number: int) -> Line2D:
    """One mechanism; returns its entry in the legend."""
    points = sorted(series.points, key=lambda point: (point.latency, point.quality))
    style: dict[str, Any] = {"color": _COLOURS[number % len(_COLOURS)], "linewidth": 1.8}
    style |= {"marker": _MARKERS[number % len(_MARKERS)], "markersize": 7}
    style |= {"linestyle": (0, _DASHES[number % len(_DASHES)]), "label": series.name}
    style |= {"markeredgecolor": "white", "markeredgewidth": 0.8, "zorder": 3}
    if series.offline:
        style |= {"color": _DARK, "marker": "*", "markersize": 12, "linestyle": ""}
        _draw_ceiling(picture, series.name, max(point.quality for point in points))
    elif len(points) == 1:
        style["linestyle"] = ""
    xs, ys = [point.latency for point in points], [point.quality for point in points]
    (line,) = picture.axes.plot(xs, ys, **style)
    picture.marked += zip(xs, ys, strict=True)
    picture.lines += [] if line.get_linestyle() == "None" else [line]
    for point in points:
        if point.label:
            text = _text(picture.axes, point.label, style["color"])
            picture.texts.append((text, point))
    if series.offline:
        ceiling = style | {"linestyle": (0, (5, 3)), "linewidth": 1.1, "color": _GREY}
        ceiling |= {"label": f"{series.name} (offline)", "markerfacecolor": _DARK}
        return Line2D([], [], **ceiling)
    return line


def _draw_ceiling(picture: _Picture, name: str, quality: float) -> None:
    line = picture.axes.axhline(quality, color=_GREY, linewidth=1.1, dashes=(5, 3), zorder=1)
    picture.lines.append(line)
    text = _text(picture.axes, f"{name} (offline)", _DARK)
    picture.ceilings.append((text, quality))


def _draw_oracle(picture: _Picture, latency: float) -> None:
    axes = picture.axes
    line = axes.axvline(latency, color=_GREY, linewidth=1.4, dashes=(1, 2), zorder=1)
    picture.lines.append(line)
    axes.text(
        latency, 1.01, "oracle", transform=axes.get_xaxis_transform(), ha="center", va="bottom",
        fontsize=9.5, color=_DARK,
    )  # fmt: skip


def _text(axes: Axes, text: str, colour: str) -> Text:
    """A label that has no place yet."""
    made = axes.text(0, 0, text, fontsize=9.5, color=colour, zorder=5, parse_math=False)
    made.set(ha="center", va="center", transform=None)
    made.set_in_layout(False)
    made.set_path_effects([withStroke(linewidth=2.5, foreground="white")])
    return made


def _write_labels(picture: _Picture, canvas: FigureCanvasAgg) -> None:
    """Give each label the place that hides least, looking at all of them three times."""
    axes, pixel = picture.axes, _DPI / 72
    frame = _Box(*axes.get_window_extent().extents)
    marks = axes.transData.transform(np.array(picture.marked))
    spots = np.concatenate([np.zeros((0, 2)), *(_along(line) for line in picture.lines)])
    labels = [_ceiling_label(axes, canvas, frame, *one) for one in picture.ceilings]
    labels += [_point_label(axes, canvas, *one) for one in picture.texts]
    radius = 4.5 * pixel
    taken = [_Box(x - radius, y - radius, x + radius, y + radius) for x, y in marks]
    for _ in range(3):
        for label in labels:
            others = [o.box for o in labels if o is not label and o.box]
            costs = []
            for box, cost in label.places:
                clash = sum(map(box.overlap, others)) + sum(map(box.overlap, taken))
                clash += box.area() - box.overlap(frame)
                costs.append(1000 * clash + 4 * box.count(spots) + cost)
            best = min(range(len(costs)), key=costs.__getitem__)
            label.box = label.places[best][0] if costs[best] < 1000 * pixel**2 else None
    for label in labels:
        _settle(label, axes, radius)


def _settle(label: _Label, axes: Axes, radius: float) -> None:
    """Move the text to its place; a line leads to its marker if that is not beside it."""
    if label.box is None:
        label.text.remove()
        return
    left, bottom, right, top = label.box
    x, y = label.target
    inverse = axes.transData.inverted()
    label.text.set_transform(axes.transData)
    label.text.set_position(inverse.transform(((left + right) / 2, (bottom + top) / 2)))
    near = np.array((min(max(x, left), right), min(max(y, bottom), top)))
    distance = math.dist(near, (x, y))
    if label.leader and distance > 2.2 * radius:
        end = np.array((x, y)) + (near - (x, y)) * radius / distance
        (xs, ys) = inverse.transform(np.array([near, end])).T
        axes.plot(xs, ys, color=label.text.get_color(), linewidth=0.6, zorder=2)


def _point_label(axes: Axes, canvas: FigureCanvasAgg, text: Text, point: Point) -> _Label:
    """Around the marker, close to it if possible, best above or below."""
    width, height = _size(text, canvas)
    x, y = axes.transData.transform((point.latency, point.quality))
    places = []
    for extra in _REACH:
        reach = (_GAP + extra) * _DPI / 72
        for step in range(24):
            across, up = math.cos(step * math.pi / 12), math.sin(step * math.pi / 12)
            middle = x + across * (width / 2 + reach), y + up * (height / 2 + reach)
            places.append((_around(middle, width, height), 4 * extra + 3 * abs(across)))
    return _Label(text, (x, y), places, leader=True)


def _ceiling_label(
    axes: Axes, canvas: FigureCanvasAgg, frame: _Box, text: Text, quality: float
) -> _Label:
    """Above the line or below, best at its right end."""
    width, height = _size(text, canvas)
    x, y = axes.transData.transform((0, quality))
    places = []
    for right in np.linspace(frame.right, frame.left + width, 40):
        for side, cost in ((1, 0), (-1, 40)):
            middle = right - width / 2, y + side * (height / 2 + 1.5 * _DPI / 72)
            places.append((_around(middle, width, height), cost + (frame.right - right) / 10))
    return _Label(text, (x, y), places, leader=False)


def _size(text: Text, canvas: FigureCanvasAgg) -> tuple[float, float]:
    box = text.get_window_extent(canvas.get_renderer())
    return float(box.width) + 2, float(box.height)


def _around(middle: tuple[float, float], width: float, height: float) -> _Box:
    x, y = middle
    return _Box(x - width / 2, y - height / 2, x + width / 2, y + height / 2)


def _along(line: Line2D) -> NDArray[np.float64]:
    """Spots on a line, a few pixels apart."""
    corners = line.get_transform().transform(np.asarray(line.get_xydata()))
    return np.concatenate([*_steps(corners)])


def _steps(corners: NDArray[np.float64]) -> Iterator[NDArray[np.float64]]:
    for start, end in zip(corners, corners[1:], strict=False):
        count = max(int(math.dist(start, end) / 4), 2)
        yield start + np.linspace(0, 1, count)[:, None] * (end - start)
