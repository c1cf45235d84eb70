"""How figures look: a colour, a marker and dashes for each line, told apart without colour, too."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count
from pathlib import Path
from typing import Any

from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

COLOURS = ["#0b5fa5", "#c2410c", "#00795c", "#8e3a86", "#7a5200", "#3f3fa8", "#a31545", "#3d6b1f"]
MARKERS = "osD^vPXph"  # one more than colours: the combinations repeat late
DASHES = [
    (),
    (6, 2),
    (6, 2, 1, 2),
    (2, 1),
    (1, 1),
    (6, 2, 1, 2, 1, 2),
    (11, 3),
    (4, 1, 4, 1, 1, 1),
]
GREY, DARK = "#6b6b6b", "#1a1a1a"
DPI = 150


def line_styles(offline: Sequence[bool]) -> list[dict[str, Any]]:
    """Matplotlib's options for each line.

    Those that read the whole sentence first are stars, joined by nothing. Their style does not
    count: the others look the same with and without them.

    Args:
        offline: For each line, whether it is one of them.
    """
    styles, numbers = list[dict[str, Any]](), count()
    for one in offline:
        style = {"linewidth": 1.8, "markersize": 7.5, "markeredgecolor": "white", "zorder": 3}
        if one:
            style |= {"color": DARK, "marker": "*", "markersize": 12, "linestyle": ""}
        else:
            i = next(numbers)
            style |= {"color": COLOURS[i % len(COLOURS)], "marker": MARKERS[i % len(MARKERS)]}
            style["linestyle"] = (0, DASHES[i % len(DASHES)])
        styles.append(style)
    return styles


def plain_axes(axes: Axes) -> None:
    """A light grid behind, and no frame above and to the right."""
    axes.grid(color="#e6e6e6", linewidth=0.6)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)


def draw_legend(figure: Figure, handles: Sequence[Line2D]) -> None:
    """Above the axes, so that it hides nothing, in as many columns as fit."""
    longest = max(len(str(handle.get_label())) for handle in handles)
    columns = min(4, len(handles), int(figure.get_figwidth() * 70 / (62 + 6 * longest)))
    style: dict[str, Any] = {"fontsize": 10, "handlelength": 3.6, "columnspacing": 1.8}
    style |= {"loc": "outside upper center", "ncols": max(columns, 1), "frameon": False}
    legend = figure.legend(handles=handles, **style)
    for text in legend.get_texts():
        text.set_parse_math(False)


def save(figure: Figure, paths: Sequence[Path]) -> None:
    """Write a figure; each suffix (.png, .svg) says which kind.

    The same figure gives the same bytes: no date and no random names in an SVG.
    """
    with rc_context({"svg.hashsalt": "simulmt"}):
        for path in paths:
            figure.savefig(path, dpi=DPI, metadata={"Date": None} if path.suffix == ".svg" else {})
