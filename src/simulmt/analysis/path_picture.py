"""The read/write path of a decoded sentence as a picture."""

from __future__ import annotations

import math
from functools import partial
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.collections import PatchCollection
from matplotlib.lines import Line2D
from matplotlib.patches import Circle

from simulmt.analysis.panel import LARGEST, Handles, Panel, disc, draw_sheet
from simulmt.analysis.staircase import Staircase, piece_staircase
from simulmt.decoding.instance import Instance

_PATH, _HEAD = "#1f4e79", "#d95f02"


def draw_path(instance: Instance, path: Path) -> None:
    """Draw the path of a sentence.

    Source on the x axis, target from top to bottom, in subwords where the instance has them. The
    line steps right with every read and down with every write; circles are heads, their area
    the number of heads that had stopped there.

    Args:
        instance: The sentence.
        path: Where to write the picture; the suffix (.png, .svg, .pdf) says which kind.
    """
    stair = piece_staircase(instance)
    most = stair.most_heads()
    title, mark = f"sentence {instance.index + 1}", partial(_mark, stair, most)
    panel = Panel(title, stair.columns, stair.rows, stair.delays, mark)
    draw_sheet([[panel]], path, partial(_key, most), smallest=0.15)


def _mark(stair: Staircase, most: int, axes: Axes) -> None:
    corners, circles = [(0, 0)], []
    for i, (_, _, delay, heads) in enumerate(stair.steps()):
        corners += [(delay, i), (delay, i + 1)]
        for j, count in heads.items():
            circles.append(Circle((j - 0.5, i + 0.5), LARGEST * math.sqrt(count / most)))
    axes.plot(*zip(*corners, strict=True), color=_PATH, linewidth=2, clip_on=False)
    marks = PatchCollection(circles, facecolor=_HEAD, edgecolor="white", linewidth=0.5, zorder=3)
    axes.add_collection(marks)


def _key(most: int, cell: float) -> Handles:
    path = Line2D([], [], color=_PATH, linewidth=2, label="path")
    counts = sorted({1, most}) if most else []
    names = ["1 head" if count == 1 else f"{count} heads" for count in counts]
    return [
        path, *(disc(cell, n / most, _HEAD, name) for n, name in zip(counts, names, strict=True))
    ]  # fmt: skip
