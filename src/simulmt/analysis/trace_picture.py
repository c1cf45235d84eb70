"""Pictures of where every head looked and stopped, as in MILk (Arivazhagan et al. 2019, fig. 4)."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import product
from pathlib import Path

import numpy as np
from jaxtyping import Float
from matplotlib.axes import Axes
from numpy.typing import NDArray

from simulmt.analysis.panel import Handles, Panel, circle_key, draw_circles, draw_sheet
from simulmt.decoding.trace import Trace

_LOOK, _STOP = "#20262e", "#c24a00"
_FAINT = 0.004  # smaller weights would be invisible


def draw_traces(traces: Sequence[Trace], path: Path, heads: str) -> None:
    """Draw the attention of a few sentences, each below the one before.

    Source on the x axis, target from top to bottom. The area of a dot is the weight on a source
    subword. Rings, joined by a line, show where a head stopped. All heads together have the largest
    weight of any head and the rings of all heads, and the line joins the furthest rings.

    Args:
        traces: The sentences, at least one.
        path: The picture's path; the suffix (.png, .svg, .pdf) says which kind.
        heads: `union` for all heads in one panel, `each` for a panel for each head.

    Raises:
        UserError: more panels than fit on a sheet.
    """
    bands = list[list[Panel]]()
    for trace in traces:
        before = f"line {trace.line}: " if len(traces) > 1 else ""
        bands += _each(trace, before) if heads == "each" else [[_union(trace, before)]]
    stops = any(trace.stops for trace in traces)
    several = heads == "union" and max(len(head_names(trace)) for trace in traces) > 1
    stop = "where a head stopped; the furthest are joined" if several else "where the head stopped"
    key = partial(_key, stop if stops else None)
    draw_sheet(bands, path, key, smallest=0.15 if heads == "union" else 0.1)


def head_names(trace: Trace) -> list[str]:
    """Return the names of the heads, in the order of `Trace.positions`."""
    _, layers, heads, _ = trace.weights.shape
    if heads == 1:
        return [f"layer {layer}" for layer in range(1, layers + 1)] if layers > 1 else ["one head"]
    names = product(range(1, layers + 1), range(1, heads + 1))
    return [
        f"layer {layer}, head {head}" if layers > 1 else f"head {head}" for layer, head in names
    ]


def union_name(trace: Trace) -> str:
    """Return the name of all heads together."""
    count = len(head_names(trace))
    return "one head" if count == 1 else f"{count} heads together: the largest weight of any"


def _union(trace: Trace, before: str) -> Panel:
    return _panel(trace, before + union_name(trace), trace.weights.max((1, 2)), trace.positions)


def _each(trace: Trace, before: str) -> list[list[Panel]]:
    """Return a band for each layer, or one band of all layers if each has a single head."""
    _, layers, heads, _ = trace.weights.shape
    panels = []
    for head, name in enumerate(head_names(trace)):
        stops = [positions[head : head + 1] for positions in trace.positions]
        weights = trace.weights[:, head // heads, head % heads]
        panels.append(_panel(trace, before + name, weights, stops))
    if heads == 1:
        return [panels]
    return [panels[layer * heads : (layer + 1) * heads] for layer in range(layers)]


def _panel(
    trace: Trace, title: str, weights: Float[NDArray[np.float64], "T S"],
    stops: Sequence[Sequence[int]],
) -> Panel:  # fmt: skip
    mark = partial(_mark, weights, stops)
    return Panel(title, trace.source, trace.target, trace.delays, mark)


def _mark(
    weights: Float[NDArray[np.float64], "T S"], stops: Sequence[Sequence[int]], axes: Axes
) -> None:
    seen = np.argwhere(weights >= _FAINT)
    draw_circles(axes, seen, weights[tuple(seen.T)], facecolors=_LOOK)
    rings = np.array([(i, j - 1) for i, row in enumerate(stops) for j in sorted({*row} - {0})])
    if not len(rings):
        return
    full = np.ones(len(rings))
    draw_circles(axes, rings, full, facecolors="white", zorder=2.8)  # between line and dots
    draw_circles(axes, rings, full, facecolors="none", edgecolors=_STOP, linewidths=1.5, zorder=4)
    furthest = {int(i): int(j) for i, j in rings}  # the last ring of each row
    line = [(furthest.get(i, np.nan) + 0.5, i + 0.5) for i in range(len(stops))]
    axes.plot(*zip(*line, strict=True), color=_STOP, linewidth=1.5, zorder=2.5)


def _key(stop: str | None, cell: float) -> Handles:
    dots = [circle_key(cell, share, _LOOK, f"weight {share:g}") for share in (1.0, 0.1)]
    ring = circle_key(cell, 1.0, _STOP, stop or "")
    ring.set(markerfacecolor="white", markeredgewidth=1.5, linewidth=1.5, linestyle="-")
    return [*dots, ring] if stop else dots
