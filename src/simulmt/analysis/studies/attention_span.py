"""Attention span against lambda_var: MMA (Ma et al. 2020), figure 3."""

from dataclasses import replace

from simulmt.analysis.figures.panels import draw_legend, draw_lines, make_panels, mark_numbers
from simulmt.analysis.figures.style import named_styles
from simulmt.analysis.runs.run import Row
from simulmt.analysis.studies.run_set import Result, RunSet
from simulmt.analysis.tables.names import lines_along
from simulmt.errors import UserError


def attention_span(run_set: RunSet) -> Result:
    """Plot how far apart the heads are, by the weight of the divergence between the heads.

    Runs with a fixed schedule have no such weight and are left out.

    Args:
        run_set: Runs with several values of `lambda_var`.

    Raises:
        UserError: no run with a learned schedule, or a run that wrote nothing.
    """
    runs = [run for run in run_set.runs if run.traits.learned]
    if not runs:
        raise UserError(f"no run in {run_set.folder} has a learned schedule, such as mma_h")
    rows = list[Row]()
    for columns, run in replace(run_set, runs=runs).named():
        if (span := run.scores.attention_span) is None:
            raise UserError(f"{run.path}: its scores have no attention span: it wrote nothing")
        rows.append(columns | {"attention_span_subword": float(span)})
    weights, spans = ([r[k] for r in rows] for k in ("lambda_var", "attention_span_subword"))
    figure, (axes,) = make_panels(1, 1, 7, 4)
    names = lines_along(runs, ("lambda_var",))
    points = zip(names, weights, spans, strict=True)
    draw_legend(figure, draw_lines(axes, points, named_styles(runs, names)))
    positive = sorted(weight for weight in weights if weight > 0)
    if positive and positive[-1] > 10 * positive[0]:  # small values would lie on each other
        axes.set_xscale("symlog", linthresh=positive[0], linscale=0.5)
    mark_numbers(axes, weights)
    axes.set_ylim(0, max(1.1 * max(spans), 1))
    axes.set_xlabel(r"$\lambda_{\mathrm{var}}$, the weight of the divergence between heads")
    axes.set_ylabel("attention span (source subwords)")
    return Result(figure, rows)
