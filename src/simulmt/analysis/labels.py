"""Labels on a picture, each where it hides least."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TypeAlias

import numpy as np
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.patheffects import withStroke
from matplotlib.text import Text
from numpy.typing import NDArray

from simulmt.analysis.style import DARK, DPI

_PIXEL = DPI / 72  # per point
_GAP, _REACH = 6.0, (0.0, 7.0, 16.0, 27.0)  # points between a marker and its label, and more

Pixels: TypeAlias = NDArray[np.float64]


@dataclass
class Label:
    """A text and its marker; the boxes (N, 4) it could fill, in pixels, and what each costs."""

    text: Text
    marker: Pixels
    places: Pixels
    costs: Pixels
    leader: bool
    box: Pixels | None = None


def place_labels(axes: Axes, labels: Sequence[Label], marks: Sequence[tuple[float, float]]) -> None:
    """Give each label the place that hides least, looking at all of them three times.

    A label for which there is no room is left out.

    Args:
        axes: With all that they must not hide drawn, in a figure whose layout is settled.
        labels: Of these axes.
        marks: Where markers are, in data.
    """
    frame: Pixels = np.array(axes.get_window_extent().extents)
    spots = axes.transData.transform(np.array(marks))
    taken = [*np.hstack([spots - 4.5 * _PIXEL, spots + 4.5 * _PIXEL])]
    drawn = np.concatenate([_along(line) for line in axes.lines])
    for label in labels:
        label.costs = label.costs + 6 * _count(label.places, drawn)
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


def point_label(axes: Axes, place: tuple[float, float], name: str, colour: str) -> Label:
    """Around the marker, close to it if possible, best above or below."""
    text, half = _text(axes, name, colour)
    marker = axes.transData.transform(place)
    extra, angle = np.meshgrid(_REACH, np.arange(24) * np.pi / 12, indexing="ij")
    direction = np.stack([np.cos(angle), np.sin(angle)], -1).reshape(-1, 2)
    direction /= abs(direction).max(axis=1, keepdims=True)  # on a square
    middle = marker + direction * (half + (_GAP + extra.reshape(-1, 1)) * _PIXEL)
    costs = 4 * extra.reshape(-1) + 3 * abs(direction[:, 0])
    return Label(text, marker, np.hstack([middle - half, middle + half]), costs, leader=True)


def ceiling_label(axes: Axes, height: float, name: str) -> Label:
    """Above the line or below, best at its right end."""
    text, half = _text(axes, name, DARK)
    frame = axes.get_window_extent().extents
    marker = axes.transData.transform((axes.get_xlim()[1], height))
    left, side = np.meshgrid(np.linspace(0, frame[2] - frame[0] - 2 * half[0], 60), (1, -1))
    shift = np.stack([-half[0] - left, side * (half[1] + 1.5 * _PIXEL)], -1).reshape(-1, 2)
    costs = left.reshape(-1) / 10 + 40 * (shift[:, 1] < 0)
    places = np.hstack([marker + shift - half, marker + shift + half])
    return Label(text, marker, places, costs, leader=False)


def _text(axes: Axes, text: str, colour: str) -> tuple[Text, Pixels]:
    """A label that has no place yet, and half its size in pixels."""
    made = axes.text(0, 0, text, fontsize=9.5, color=colour, zorder=5, parse_math=False)
    made.set(ha="center", va="center", transform=None)
    made.set_in_layout(False)
    made.set_path_effects([withStroke(linewidth=2.5, foreground="white")])
    box = made.get_window_extent()
    return made, np.array([box.width / 2 + 2, box.height / 2])


def _settle(label: Label, axes: Axes) -> None:
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
