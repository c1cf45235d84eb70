"""Decoder layers and heads: MMA (Ma et al. 2020), figure 4."""

from typing import Literal

from simulmt.analysis.figures.panels import draw_legend, draw_lines, make_panels, mark_numbers
from simulmt.analysis.figures.style import line_styles
from simulmt.analysis.runs.run import Row
from simulmt.analysis.studies.run_set import Result, RunSet
from simulmt.analysis.tables.names import lines_along
from simulmt.errors import UserError

_LAYERS, _HEADS = "model.decoder_layers", "model.heads"


def layers_heads(run_set: RunSet, *, unit: Literal["word", "subword"] = "word") -> Result:
    """Plot quality and DAL by the number of heads, a line for each number of decoder layers.

    Args:
        run_set: Runs with several values of `model.decoder_layers` and `model.heads`.
        unit: The unit of DAL.

    Raises:
        UserError: a run whose configuration lacks one of the two numbers.
    """
    counted = run_set.runs[0].scores.writing.of_source(unit)
    labels = {"BLEU": "BLEU", f"DAL_{unit}": f"DAL (source {counted}s)"}
    rows = list[Row]()
    for columns, run in run_set.named():
        for key in (_LAYERS, _HEADS):
            if key not in run.options:
                raise UserError(f"{run.path}: its configuration has no {key}; choose other runs")
        size = {"decoder_layers": int(run.options[_LAYERS]), "heads": int(run.options[_HEADS])}
        dal = run.scores["paper", unit]["DAL"].value
        rows.append({**columns, **size, "BLEU": run.number("BLEU"), f"DAL_{unit}": dal})
    layers = [row["decoder_layers"] for row in rows]
    keys = [*zip(lines_along(run_set.runs, (_LAYERS, _HEADS)), layers, strict=True)]
    several = len({name for name, _ in keys}) > 1
    names = {
        (name, n): (f"{name}, " if several else "") + f"{n} layer{'s' if n > 1 else ''}"
        for name, n in sorted({*keys})
    }
    styles = dict(zip(names.values(), line_styles([False] * len(names)), strict=True))
    figure, panels = make_panels(1, 2, 7.6, 3.9)
    for axes, (column, label) in zip(panels, labels.items(), strict=True):
        points = [(names[k], row["heads"], row[column]) for k, row in zip(keys, rows, strict=True)]
        handles = draw_lines(axes, points, styles)
        axes.set_xscale("log", base=2)
        mark_numbers(axes, [row["heads"] for row in rows])
        axes.set(xlabel="heads", ylabel=label)
    draw_legend(figure, handles)
    return Result(figure, rows)
