"""The read/write path of a decoded sentence as an SVG inside of a page, in the page's colours."""

from __future__ import annotations

from html import escape

from rich.cells import cell_len, set_cell_size

from simulmt.analysis.path import interleaved
from simulmt.analysis.staircase import word_staircase
from simulmt.decoding.instance import Instance

_CELL, _LETTER, _LONGEST = 22, 7.4, 18  # pixels of a cell and of a letter, letters of a label


def path_svg(instance: Instance) -> str:
    """A row for each written word, a column for each source word; shaded what had been read.

    The classes `read`, `new` and `rule` are for the page to colour.
    """
    grid = word_staircase(instance)
    columns, rows = [_short(name) for name in grid.columns], [_short(name) for name in grid.rows]
    left = 12 + max((_width(name) for name in rows), default=0)
    top = 14 + max((0.71 * _width(name) for name in columns), default=0)
    wide, high = _CELL * len(columns), _CELL * len(rows)
    reach = [(j + 0.5) * _CELL + 0.71 * _width(name) + 14 for j, name in enumerate(columns)]
    width, height = left + max([wide, *reach]), top + high + 2
    marks = [_column(name, left + (j + 0.5) * _CELL, top) for j, name in enumerate(columns)]
    for i, (_, before, delay, _) in enumerate(grid.steps()):
        marks.append(_rect("read", left, top + i * _CELL, before))
        marks.append(_rect("new", left + before * _CELL, top + i * _CELL, max(delay - before, 0)))
        y = top + (i + 0.5) * _CELL + 4.5
        marks.append(f'<text x="{left - 6:g}" y="{y:g}" text-anchor="end">{escape(rows[i])}</text>')
    lines = [f"M{left + j * _CELL:g} {top:g}v{high}" for j in range(len(columns) + 1)]
    lines += [f"M{left:g} {top + i * _CELL:g}h{wide}" for i in range(len(rows) + 1)]
    path = f'<path class="rule" d="{"".join(lines)}"/>'
    return (
        f'<svg class="path" role="img" aria-label="{escape(interleaved(instance))}" '
        f'width="{width:g}" height="{height:g}">{"".join(marks)}{path}</svg>'
    )


def _column(name: str, x: float, top: float) -> str:
    return f'<text transform="translate({x:g} {top - 5:g}) rotate(-45)">{escape(name)}</text>'


def _rect(kind: str, x: float, y: float, cells: int) -> str:
    if not cells:
        return ""
    return f'<rect class="{kind}" x="{x:g}" y="{y:g}" width="{cells * _CELL}" height="{_CELL}"/>'


def _short(name: str) -> str:
    return name if cell_len(name) <= _LONGEST else set_cell_size(name, _LONGEST - 1).rstrip() + "…"


def _width(name: str) -> float:
    return round(_LETTER * cell_len(name), 1)
