"""Pictures of source units by target units; shading shows what had been read."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from jaxtyping import Float, Int
from matplotlib.axes import Axes
from matplotlib.collections import EllipseCollection
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from rich.cells import cell_len, set_cell_size

from simulmt.analysis.figures.panels import save
from simulmt.analysis.figures.style import Style
from simulmt.errors import UserError

NOTHING = "(nothing was written)"
_READ, _NEW, _LARGEST = "#e3ecf5", "#a9c8e8", 0.42  # the radius of the largest circle, in cells
_WIDEST, LONGEST = 24.0, 24  # inches of a line of panels, columns of a label
_GAP, _LETTER = 0.35, 0.09  # inches between panels beside each other, and of a title's letter
_AREA, _SIDE = 3000.0, 200.0  # square inches and inches of the largest sheet

Handles: TypeAlias = Sequence[Patch | Line2D]


@dataclass(frozen=True)
class Panel:
    """One grid of source units by target units.

    Attributes:
        title: The text above the grid.
        columns: The source units.
        rows: The target units, from top to bottom.
        delays: For each row, the columns that had been read.
        mark: Draws on the axes; a cell is 1 by 1, and the first one begins at (0, 0).
    """

    title: str
    columns: Sequence[str]
    rows: Sequence[str]
    delays: Sequence[int]
    mark: Callable[[Axes], None]

    @property
    def size(self) -> tuple[int, int]:
        """Cells from left to right and from top to bottom, at least one."""
        return max(len(self.columns), 1), max(len(self.rows), 1)

    def pitch(self, cell: float) -> float:
        """Return the inches from this panel to the next one, for cells of this many inches."""
        return max(self.size[0] * cell, _LETTER * len(self.title)) + _GAP


def draw_sheet(
    bands: Sequence[Sequence[Panel]], path: Path, key: Callable[[float], Handles], smallest: float
) -> None:
    """Draw bands of panels below each other.

    Args:
        bands: Panels with the same rows and columns; a band that is too wide becomes several lines.
        path: The picture's path; the suffix (.png, .svg, .pdf) selects the format. The same panels
            give the same bytes.
        key: Returns the legend's entries, besides shading, for cells of this many inches.
        smallest: The least side of a cell, in inches.

    Raises:
        UserError: panels that do not fit on a sheet.
    """
    most = max(band[0].size[0] + 1 for band in bands) * max(map(len, bands))
    cell = min(0.34, max(smallest, _WIDEST / most))
    font = min(10.0, 0.6 * 72 * cell)
    lines = list[Sequence[Panel]]()
    for band in bands:
        room = max(int((_WIDEST + 2) / band[0].pitch(cell)), 1)
        each = math.ceil(len(band) / math.ceil(len(band) / room))
        lines += [band[i : i + each] for i in range(0, len(band), each)]
    longest = [max([0, *map(cell_len, map(_label, line[0].columns))]) for line in lines]
    gaps = [0.7 + 0.006 * font * letters for letters in longest]  # titles and labels above
    height = sum(gaps) + cell * sum(line[0].size[1] for line in lines)
    width = max(len(line) * line[0].pitch(cell) for line in lines)
    if width * height > _AREA or max(width, height) > _SIDE:
        size = f"{path} would be {width:.0f} by {height:.0f} inches"
        limit = f"at most {_AREA:,.0f} square inches and {_SIDE:.0f} on a side can be drawn"
        raise UserError(f"{size}; {limit}: take fewer sentences, heads=union, or a page (.html)")
    figure, bottom = Figure(figsize=(width, height)), height
    for line, gap in zip(lines, gaps, strict=True):
        bottom -= gap + cell * line[0].size[1]
        for number, panel in enumerate(line):
            left, (across, down) = number * panel.pitch(cell), panel.size
            box = (left / width, bottom / height, across * cell / width, down * cell / height)
            axes = figure.add_axes(box)
            _frame(axes, panel, font, named=number == 0)
            panel.mark(axes)
    shades = [Patch(color=_NEW, label="read for this row"), Patch(color=_READ, label="read before")]
    place: Style = {"loc": "upper left", "bbox_to_anchor": (0, 0), "borderaxespad": 0.8}
    figure.legend(handles=[*shades, *key(cell)], ncols=6, frameon=False, fontsize=8, **place)
    save(figure, [path], bbox_inches="tight", pad_inches=0.1)


def draw_circles(
    axes: Axes,
    cells: Int[np.ndarray, "N 2"],
    shares: Float[np.ndarray, "N"],
    **style: Any,
) -> None:
    """Draw circles in cells.

    Args:
        axes: The axes of a panel.
        cells: Row and column of each circle, from 0.
        shares: The area of each circle, as a share of the largest possible one.
        style: Options of matplotlib.
    """
    width = 2 * _LARGEST * np.sqrt(shares)
    look: Style = {"units": "x", "linewidths": 0, "zorder": 3, **style}
    look |= {"offsets": cells[:, ::-1] + 0.5, "offset_transform": axes.transData}
    axes.add_collection(EllipseCollection(width, width, 0 * width, **look))


def circle_key(cell: float, share: float, colour: str, label: str) -> Line2D:
    """Return the legend's entry for a circle with this share of the largest circle's area."""
    size = 2 * 72 * cell * _LARGEST * math.sqrt(share)
    return Line2D([], [], linestyle="", marker="o", color=colour, markersize=size, label=label)


def short(text: str, most: int = LONGEST) -> str:
    """Return a text of at most `most` columns, with an ellipsis for what is cut off."""
    return text if cell_len(text) <= most else set_cell_size(text, most - 1).rstrip() + "…"


def more(count: int, unit: str) -> str:
    """Return what stands for the units that are left out: `… and 31 more words`."""
    return f"… and {count} more {unit}{'s' if count > 1 else ''}"


def _label(name: str) -> str:
    """Return the label of a unit, with an underscore for each heavy ▁."""
    return short(name.replace("▁", "_"))


def _frame(axes: Axes, panel: Panel, font: float, named: bool) -> None:
    """Draw labels, grid and shading; only the first panel of a line names its rows."""
    across, down = panel.size
    axes.set_title(panel.title, loc="left", fontsize=10, fontweight="bold", parse_math=False)
    axes.set(xlim=(0, across), ylim=(down, 0))
    axes.spines[:].set_visible(False)
    axes.tick_params(length=0, top=False, labeltop=True, labelbottom=False, pad=3, labelleft=named)
    plain: Style = {"fontsize": font, "parse_math": False}
    slanted = plain | {"rotation": 45, "ha": "left", "va": "bottom", "rotation_mode": "anchor"}
    axes.set_xticks(np.arange(len(panel.columns)) + 0.5, map(_label, panel.columns), **slanted)
    axes.set_yticks(np.arange(len(panel.rows)) + 0.5, map(_label, panel.rows), **plain)
    if not panel.rows:
        axes.set_xlabel(NOTHING, loc="left")
    axes.vlines(range(across + 1), 0, down, colors="#c8c8c8", linewidth=0.4, clip_on=False)
    axes.hlines(range(down + 1), 0, across, colors="#c8c8c8", linewidth=0.4, clip_on=False)
    centres = np.arange(len(panel.delays)) + 0.5
    axes.barh(centres, panel.delays, height=1, color=_NEW)
    axes.barh(centres, [0, *panel.delays][: len(centres)], height=1, color=_READ)
