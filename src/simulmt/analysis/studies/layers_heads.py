"""Decoder layers and heads: MMA (Ma et al. 2020), figure 4."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, NullLocator, StrMethodFormatter

from simulmt.analysis.names import row_names
from simulmt.analysis.runs import Run
from simulmt.analysis.studies.lines import draw_line, line_names, panels
from simulmt.analysis.studies.material import Material, Result, about
from simulmt.analysis.style import draw_legend, line_styles
from simulmt.errors import UserError
from simulmt.options import pick
from simulmt.scoring.conventions import UNITS

_LAYERS, _HEADS = "model.decoder_layers", "model.heads"


def layers_heads(material: Material, *, unit: str = "word") -> Result:
    """Quality and DAL by the number of heads, a line for each number of decoder layers.

    Args:
        material: Runs with several values of `model.decoder_layers` and `model.heads`.
        unit: What DAL is counted in, `word` or `subword`.

    Raises:
        UserError: another unit, or a run whose configuration lacks one of the two.
    """
    pick(dict.fromkeys(UNITS), unit, "unit")
    runs = material.runs
    for run in runs:
        if lacking := [key for key in (_LAYERS, _HEADS) if not _counted(run.options.get(key))]:
            raise UserError(
                f"{material.place(run)}: its configuration has no number for "
                f"{' and '.join(lacking)}; point `runs` at a folder of runs that have both"
            )
    rows = [
        {"name": name, **about(run), "decoder_layers": run.options[_LAYERS],
         "heads": run.options[_HEADS], "BLEU": run.bleu(),
         f"DAL_{unit}": run.figures(unit=unit)["DAL"].value}
        for name, run in zip(row_names(runs), runs, strict=True)
    ]  # fmt: skip
    return Result(_draw(runs, rows, unit), rows)


def _draw(runs: Sequence[Run], rows: Sequence[Mapping[str, Any]], unit: str) -> Figure:
    names = line_names(runs, (_LAYERS, _HEADS))
    keys = sorted({(n, row["decoder_layers"]) for n, row in zip(names, rows, strict=True)})
    several = len(set(names)) > 1
    figure, grid = panels(1, 2, 7.6, 3.9)
    panel = zip(grid, ("BLEU", f"DAL_{unit}"), ("BLEU", f"DAL (source {unit}s)"), strict=True)
    for axes, column, label in panel:
        handles = []
        for (name, layers), style in zip(keys, line_styles([False] * len(keys)), strict=True):
            points = [
                (row["heads"], row[column])
                for other, row in zip(names, rows, strict=True)
                if (other, row["decoder_layers"]) == (name, layers) and row[column] is not None
            ]
            entry = f"{layers} layer{'s' if layers > 1 else ''}"
            entry = f"{name}, {entry}" if several else entry
            handles.append(draw_line(axes, points, entry, style))
        axes.set_xscale("log", base=2)
        axes.xaxis.set_major_locator(FixedLocator(sorted({row["heads"] for row in rows})))
        axes.xaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
        axes.xaxis.set_minor_locator(NullLocator())
        axes.set_xlabel("heads", fontsize=11)
        axes.set_ylabel(label, fontsize=11)
    draw_legend(figure, handles)
    return figure


def _counted(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value > 0
