"""Decoder layers and heads: MMA (Ma et al. 2020), figure 4."""

from __future__ import annotations

from simulmt.analysis.runs import Run
from simulmt.analysis.studies.drawing import draw_lines, line_names, mark_numbers
from simulmt.analysis.studies.run_set import Result, RunSet, run_columns
from simulmt.analysis.style import draw_legend, line_styles, make_panels
from simulmt.errors import UserError
from simulmt.options import pick
from simulmt.scoring.conventions import UNITS

_LAYERS, _HEADS = "model.decoder_layers", "model.heads"


def layers_heads(run_set: RunSet, *, unit: str = "word") -> Result:
    """Plot quality and DAL by the number of heads, a line for each number of decoder layers.

    Args:
        run_set: Runs with several values of `model.decoder_layers` and `model.heads`.
        unit: The unit of DAL, `word` or `subword`.

    Raises:
        UserError: another unit, or a run whose configuration lacks one of the two numbers.
    """
    pick(dict.fromkeys(UNITS), unit, "unit")
    runs = run_set.runs
    layers, heads = ([_number(run_set, run, key) for run in runs] for key in (_LAYERS, _HEADS))
    figures: dict[str, list[float | None]] = {
        "BLEU": [run.bleu() for run in runs],
        f"DAL_{unit}": [run.figures(unit=unit)["DAL"].value for run in runs],
    }
    rows = [
        {**run_columns(name, run), "decoder_layers": layers[i], "heads": heads[i],
         **{column: values[i] for column, values in figures.items()}}
        for i, (name, run) in enumerate(run_set.named())
    ]  # fmt: skip
    keys = [*zip(line_names(runs, (_LAYERS, _HEADS)), layers, strict=True)]
    several = len({name for name, _ in keys}) > 1
    names = {
        (name, n): (f"{name}, " if several else "") + f"{n} layer{'s' if n > 1 else ''}"
        for name, n in sorted({*keys})
    }
    styles = dict(zip(names.values(), line_styles([False] * len(names)), strict=True))
    figure, panels = make_panels(1, 2, 7.6, 3.9)
    labels = ("BLEU", f"DAL (source {unit}s)")
    for axes, values, label in zip(panels, figures.values(), labels, strict=True):
        points = zip([names[key] for key in keys], heads, values, strict=True)
        handles = draw_lines(axes, points, styles)
        axes.set_xscale("log", base=2)
        mark_numbers(axes, heads)
        axes.set(xlabel="heads", ylabel=label)
    draw_legend(figure, handles)
    return Result(figure, rows)


def _number(run_set: RunSet, run: Run, key: str) -> int:
    value = run.options.get(key)
    if isinstance(value, int) and not isinstance(value, bool) and value > 0:
        return value
    raise UserError(
        f"{run_set.place(run)}: its configuration has no number for {key}; point `runs` at a "
        f"folder of runs that have {_LAYERS} and {_HEADS}"
    )
