"""The read/write path of a decoded sentence as a picture."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from simulmt.analysis.panel import Handles, Panel, circle_key, draw_circles, draw_sheet
from simulmt.analysis.staircase import Staircase, piece_staircase
from simulmt.decoding.instance import Instance

_PATH, _HEAD = "#1f4e79", "#d95f02"


def draw_path(instance: Instance, path: Path) -> None:
    """Draw the path of a sentence.

    Source on the x axis, target from top to bottom, in subwords where the instance has them. The
    line steps right with every read and down with every write. The area of a circle is the number
    of heads that had stopped at its place.

    Args:
        instance: The sentence.
        path: The picture's path; the suffix (.png, .svg, .pdf) says which kind.
    """
    grid = piece_staircase(instance)
    title, mark = f"sentence {instance.index + 1}", partial(_mark, grid)
    panel = Panel(title, grid.columns, grid.rows, grid.delays, mark)
    draw_sheet([[panel]], path, partial(_key, grid.most_heads()), smallest=0.15)


def _mark(grid: Staircase, axes: Axes) -> None:
    read, written = np.repeat([0, *grid.delays], 2)[1:], np.arange(2 * len(grid.rows) + 1) // 2
    axes.plot(read, written, color=_PATH, linewidth=2, clip_on=False)
    heads = [(i, j - 1, n) for i, row in enumerate(grid.heads) for j, n in row.items()]
    if heads:
        cells, counts = np.split(np.array(heads), [2], axis=1)
        shares = counts[:, 0] / grid.most_heads()
        draw_circles(axes, cells, shares, facecolors=_HEAD, edgecolors="white", linewidths=0.5)


def _key(most: int, cell: float) -> Handles:
    counts = sorted({1, most}) if most else []
    circles = [
        circle_key(cell, n / most, _HEAD, "1 head" if n == 1 else f"{n} heads") for n in counts
    ]
    return [Line2D([], [], color=_PATH, linewidth=2, label="path"), *circles]
