"""Attention span against lambda_var: MMA (Ma et al. 2020), figure 3."""

from __future__ import annotations

from matplotlib.ticker import FixedLocator, NullLocator, StrMethodFormatter

from simulmt.analysis.names import row_names
from simulmt.analysis.runs import Run
from simulmt.analysis.studies.lines import draw_line, line_names, named_styles, panels
from simulmt.analysis.studies.material import Material, Result, about
from simulmt.analysis.style import draw_legend
from simulmt.errors import UserError


def attention_span(material: Material) -> Result:
    """How far the heads are apart, by the weight of the divergence between them.

    Runs whose schedule is fixed have no such weight and are left out.

    Args:
        material: Runs with several values of `lambda_var`.

    Raises:
        UserError: no run with a learned schedule, or one without a span in its scores.
    """
    runs = [run for run in material.runs if run.trait("learned")]
    if not runs:
        raise UserError(
            f"no run in {material.folder} has a learned schedule, such as mma_h: lambda_var and "
            "the attention span are of learned schedules"
        )
    spans = [_span(material, run) for run in runs]
    rows = [
        {"name": name, **about(run), "attention_span_subword": span}
        for name, run, span in zip(row_names(runs), runs, spans, strict=True)
    ]
    names = line_names(runs, ("lambda_var",))
    figure, (axes,) = panels(1, 1, 7, 4)
    handles = []
    for name, style in named_styles(runs, names).items():
        points = [
            (run.weight("lambda_var"), span)
            for run, span, other in zip(runs, spans, names, strict=True)
            if other == name
        ]
        handles.append(draw_line(axes, points, name, style))
    values = sorted({run.weight("lambda_var") for run in runs})
    positive = [value for value in values if value > 0]
    if positive and positive[-1] > 10 * positive[0]:  # small values would lie on each other
        axes.set_xscale("symlog", linthresh=positive[0], linscale=0.5)
        axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_locator(FixedLocator(values))
    axes.xaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
    axes.set_ylim(0, max(1.1 * max(spans), 1))
    axes.set_xlabel(
        r"$\lambda_{\mathrm{var}}$, the weight of the divergence between heads", fontsize=11
    )
    axes.set_ylabel("attention span (source subwords)", fontsize=11)
    draw_legend(figure, handles)
    return Result(figure, rows)


def _span(material: Material, run: Run) -> float:
    span = run.scores.attention_span
    if span is None:
        raise UserError(
            f"{material.place(run)}: its scores have no attention span: it wrote nothing; leave "
            "this run out"
        )
    return float(span)
