"""Where every head looked and stopped in decoded sentences: a picture, or a page.

As in MILk (Arivazhagan et al. 2019, fig. 4). The page plays the sentences back, in one file: data,
styles and scripts (`simulmt.page`).
"""

import base64
from collections.abc import Sequence
from functools import partial
from itertools import product
from pathlib import Path

import numpy as np
from jaxtyping import Float
from matplotlib.axes import Axes

from simulmt.analysis.figures import sheet
from simulmt.analysis.figures.style import Style
from simulmt.analysis.figures.trace import Trace
from simulmt.errors import UserError
from simulmt.options import pick
from simulmt.page import single_file
from simulmt.system.disk import check_writable, write_text, writing

KINDS = (".png", ".svg", ".pdf", ".html")
"""The suffixes of pictures, and of the page."""
HEADS = ("union", "each")
"""All heads in one panel, or a panel for each head."""
MOST = 60
"""The most rows, and the most columns, of a sentence on a picture; a page shows all."""
_REMEDY = "name a file in a folder that exists"
_LOOK, _STOP = "#20262e", "#c24a00"
_FAINT = 0.004  # smaller weights would be invisible


def write_picture(traces: Sequence[Trace], path: str | Path, heads: str = "union") -> None:
    """Write a picture or a page of where every head looked and stopped.

    Args:
        traces: The sentences, as `trace_sentence` returns them, in subwords or `in_words`.
        path: The file; .png, .svg and .pdf are pictures, which show the beginning of a long
            sentence, .html is a page that plays the sentences back. The same sentences give the
            same bytes.
        heads: `union` or `each`; the reader of a page can change this.

    Raises:
        UserError: no sentence, more than fits on a picture, another suffix, another word for
            heads, or a path that cannot be written.
    """
    path = Path(path)
    check_picture(path, heads)
    if not traces:
        raise UserError(f"{path}: no sentence to draw; give at least one")
    with writing(path, _REMEDY):
        if path.suffix.lower() == ".html":
            data = {"heads": heads, "sentences": [_sentence(trace) for trace in traces]}
            write_text(path, single_file("replay.html", data))
        else:
            _draw(traces, path, heads)


def check_picture(path: str | Path, heads: str = "union") -> None:
    """Reject the arguments that `write_picture` would reject, before any work.

    Raises:
        UserError: another suffix, another word for heads, or no such folder.
    """
    if Path(path).suffix.lower() not in KINDS:
        raise UserError(f"picture is {str(path)!r}; its name must end in one of {', '.join(KINDS)}")
    pick(dict.fromkeys(HEADS), heads, "heads")
    if not (folder := Path(path).parent).is_dir():
        raise UserError(f"{path} cannot be written: there is no folder {folder}")
    check_writable(folder, _REMEDY)


def _draw(traces: Sequence[Trace], path: Path, heads: str) -> None:
    """Draw the attention of a few sentences, each below the one before.

    Source on the x axis, target from top to bottom. The area of a dot is the weight on a source
    unit. Rings, joined by a line, show where a head stopped. All heads together have the largest
    weight of any head and the rings of all heads, and the line joins the furthest rings.

    Args:
        traces: The sentences, at least one.
        path: The picture's path; the suffix (.png, .svg, .pdf) selects the format.
        heads: `union` for all heads in one panel, `each` for a panel for each head.

    Raises:
        UserError: more panels than fit on a sheet.
    """
    numbers = [f"line {trace.line}: " if len(traces) > 1 else "" for trace in traces]
    bands = [b for t, n in zip(traces, numbers, strict=True) for b in _bands(t, heads, n)]
    stops = any(trace.stops for trace in traces)
    several = heads == "union" and max(len(_head_names(trace)) for trace in traces) > 1
    stop = "where a head stopped; the furthest are joined" if several else "where the head stopped"
    key = partial(_key, stop if stops else None)
    sheet.draw_sheet(bands, path, key, smallest=0.15 if heads == "union" else 0.1)


def _bands(trace: Trace, heads: str, before: str) -> list[list[sheet.Panel]]:
    """Return the panels of a sentence: one, or a band for each layer.

    All layers are one band if each has a single head.
    """
    T, layers, count, S = trace.weights.shape
    weights = trace.weights.reshape(T, layers * count, S)
    left_out = sum(max(len(units) - MOST, 0) for units in (trace.source, trace.target))
    after = f" {sheet.more(left_out, trace.unit)}" if left_out else ""
    grid = (trace.source[:MOST], trace.target[:MOST], trace.delays[:MOST])

    def panel(title: str, heads: slice) -> sheet.Panel:
        stops = [row[heads] for row in trace.positions[:MOST]]
        largest = weights[:MOST, heads, :MOST].max(1)
        return sheet.Panel(before + title + after, *grid, partial(_mark, largest, stops))

    if heads == "union":
        return [[panel(_union_name(trace), slice(None))]]
    panels = [panel(name, slice(i, i + 1)) for i, name in enumerate(_head_names(trace))]
    wide = layers if count == 1 else count
    return [panels[first : first + wide] for first in range(0, len(panels), wide)]


def _head_names(trace: Trace) -> list[str]:
    """Return the names of the heads, in the order of `Trace.positions`."""
    _, layers, heads, _ = trace.weights.shape
    of_layer = [f"layer {n}" for n in range(1, layers + 1)] if layers > 1 else []
    of_head = [f"head {n}" for n in range(1, heads + 1)] if heads > 1 else []
    names = product(*filter(None, (of_layer, of_head)))
    return [", ".join(name) or "one head" for name in names]


def _union_name(trace: Trace) -> str:
    """Return the name of all heads together."""
    count = len(_head_names(trace))
    return "one head" if count == 1 else f"{count} heads together: the largest weight of any"


def _mark(weights: Float[np.ndarray, "T S"], stops: Sequence[Sequence[int]], axes: Axes) -> None:
    seen = np.argwhere(weights >= _FAINT)
    sheet.draw_circles(axes, seen, weights[tuple(seen.T)], facecolors=_LOOK)
    rings = np.array([(i, j - 1) for i, row in enumerate(stops) for j in sorted({*row} - {0})])
    if not len(rings):
        return
    area = np.ones(len(rings))
    sheet.draw_circles(axes, rings, area, facecolors="white", zorder=2.8)  # between line and dots
    ring: Style = {"edgecolors": _STOP, "linewidths": 1.5}
    sheet.draw_circles(axes, rings, area, facecolors="none", zorder=4, **ring)
    furthest = [(max(row) or np.nan) - 0.5 for row in stops]
    axes.plot(furthest, np.arange(len(stops)) + 0.5, color=_STOP, linewidth=1.5, zorder=2.5)


def _key(stop: str | None, cell: float) -> sheet.Handles:
    dots = [sheet.circle_key(cell, share, _LOOK, f"weight {share:g}") for share in (1.0, 0.1)]
    ring = sheet.circle_key(cell, 1.0, _STOP, stop or "")
    ring.set(markerfacecolor="white", markeredgewidth=1.5, linewidth=1.5, linestyle="-")
    return [*dots, ring] if stop else dots


def _sentence(trace: Trace) -> dict[str, object]:
    """Return the data of the script; weights are bytes (255 for 1) by head, target and source."""
    T, layers, heads, S = trace.weights.shape
    weights = trace.weights.reshape(T, layers * heads, S).swapaxes(0, 1)  # (LH, T, S)
    quantised = np.rint(255 * weights).astype(np.uint8).tobytes()
    return {
        "line": trace.line,
        "source": trace.source,
        "target": trace.target,
        "gap": " " if trace.unit == "word" else "",
        "delays": trace.delays,
        "steps": [*trace.steps()],
        "union": _union_name(trace),
        "names": _head_names(trace),
        "stops": trace.positions,
        "weights": base64.b64encode(quantised).decode("ascii"),
    }
