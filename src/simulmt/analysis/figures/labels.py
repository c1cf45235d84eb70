"""Labels on a picture, each at the place where it hides least.

`adjustText` and `textalloc` place labels on any scatter plot. On a curve with 17 points,
`adjustText` hid points and labels; `textalloc` left out a label and put labels far from points.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from matplotlib.axes import Axes
from matplotlib.patheffects import withStroke
from matplotlib.text import Text
from numpy.typing import NDArray

from simulmt.analysis.figures.panels import DPI

_PIXEL = DPI / 72  # pixels per point
_GAP, _REACH = 6.0, (0.0, 7.0, 16.0, 27.0)  # points between a marker and its label, and further

Pixels: TypeAlias = NDArray[np.float64]
Place: TypeAlias = tuple[float, float]
"""Latency and quality."""


@dataclass
class PlacedLabel:
    """A text, the boxes (N, 4) in pixels that may hold it, their costs, and the box that holds it.

    A line leads from a distant box to the marker.
    """

    text: Text
    boxes: Pixels
    costs: Pixels
    marker: Pixels
    box: Pixels | None = None


def place_labels(
    axes: Axes, labels: Sequence[PlacedLabel], marks: Sequence[tuple[Place, Place]]
) -> None:
    """Move each label to the box that hides least, and leave out a label without room.

    Args:
        axes: The axes with all that labels must not hide; the layout of the figure is settled.
        labels: The labels of these axes.
        marks: The places of the markers, in data coordinates, and the lengths of their whiskers.
    """
    places, whiskers = np.moveaxis(np.array(marks), 1, 0)
    spots, ends = (axes.transData.transform(xy) for xy in (places, places + whiskers))
    half, thin = 4.5 * _PIXEL, 1.5 * _PIXEL
    sizes = (half, (ends - spots) * (1, 0) + thin, (ends - spots) * (0, 1) + thin)
    markers = np.concatenate([np.hstack([spots - size, spots + size]) for size in sizes])
    lines = [line.get_transform().transform_path(line.get_path()) for line in axes.lines]
    drawn = np.concatenate([line.interpolated(150).vertices for line in lines])
    frame: Pixels = np.array(axes.get_window_extent().extents)
    for label in labels:
        low, high = np.hsplit(label.boxes, 2)
        close = ((drawn > low.min(0) - 3) & (drawn < high.max(0) + 3)).all(-1)
        near = ((drawn[close, None] > low - 3) & (drawn[close, None] < high + 3)).all(-1).sum(0)
        outside = _overlap(label.boxes, label.boxes) - _overlap(label.boxes, frame)
        covered = outside + _overlap(label.boxes[:, None], markers).sum(axis=1)
        label.costs = label.costs + 6 * near + 1000 * covered
    for _ in range(3):  # a label may move when other labels have a place
        for label in labels:
            taken = [x.box for x in labels if x is not label and x.box is not None]
            costs = label.costs + 1000 * sum(_overlap(label.boxes, box) for box in taken)
            best = int(costs.argmin())
            label.box = label.boxes[best] if costs[best] < 1000 * _PIXEL**2 else None
    for label in labels:
        if label.box is None:
            label.text.remove()
        else:
            _settle(label, label.box, axes)


def point_label(axes: Axes, place: Place, name: str, colour: str) -> PlacedLabel:
    """Return a label around a marker, close to the marker if possible, best above or below."""
    text, half = _text(axes, name, colour)
    marker = axes.transData.transform(place)
    extra, angle = np.meshgrid(_REACH, np.arange(24) * np.pi / 12, indexing="ij")
    direction = np.stack([np.cos(angle), np.sin(angle)], -1).reshape(-1, 2)
    direction /= abs(direction).max(axis=1, keepdims=True)  # on a square
    middle = marker + direction * (half + (_GAP + extra.reshape(-1, 1)) * _PIXEL)
    costs = 4 * extra.reshape(-1) + 3 * abs(direction[:, 0])
    return PlacedLabel(text, np.hstack([middle - half, middle + half]), costs, marker)


def _text(axes: Axes, content: str, colour: str) -> tuple[Text, Pixels]:
    """Return a text without a place, and half the size of the text in pixels."""
    text = axes.text(0, 0, content, fontsize=9.5, color=colour, zorder=5, parse_math=False)
    text.set(ha="center", va="center", transform=None, in_layout=False)
    text.set_path_effects([withStroke(linewidth=2.5, foreground="white")])
    box = text.get_window_extent()
    return text, np.array([box.width / 2 + 2, box.height / 2])


def _settle(label: PlacedLabel, box: Pixels, axes: Axes) -> None:
    """Move the text to a box, and draw a line to a distant marker."""
    inverse, (low, high) = axes.transData.inverted(), np.split(box, 2)
    label.text.set(transform=axes.transData, position=inverse.transform((low + high) / 2))
    near = np.clip(label.marker, low, high)
    distance = math.dist(near, label.marker)
    if distance > 10 * _PIXEL:
        end = label.marker + (near - label.marker) * 4.5 * _PIXEL / distance
        xs, ys = inverse.transform(np.array([near, end])).T
        axes.plot(xs, ys, color=label.text.get_color(), linewidth=0.6, zorder=2)


def _overlap(boxes: Pixels, others: Pixels) -> Pixels:
    """Return the areas that boxes (..., 4) and others share."""
    low, high = np.maximum(boxes, others)[..., :2], np.minimum(boxes, others)[..., 2:]
    return np.asarray(np.clip(high - low, 0, None).prod(axis=-1))
