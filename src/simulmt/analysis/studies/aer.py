"""The alignment error rate of attention, by links made by hand: Luong et al. (2015), table 6."""

from pathlib import Path

from matplotlib.lines import Line2D

from simulmt.alignment.error_rate import error_rate
from simulmt.analysis.figures.panels import draw_legend, make_panels, name_rows
from simulmt.analysis.figures.style import COLOURS, DARK, Style
from simulmt.analysis.runs.run import Row
from simulmt.analysis.studies.run_set import Result, RunSet, gold_links
from simulmt.errors import UserError

_OF_LAYER, _OF_ALL = "attention of a layer", "attention of all layers"
_OF_HEAD = "where a head stops"
_LAYER: Style = {"color": COLOURS[0], "marker": "o", "markersize": 7, "markeredgecolor": "white"}
_ALL: Style = {"color": DARK, "marker": "*", "markersize": 12, "markeredgecolor": "white"}
_HEAD: Style = {"color": COLOURS[1], "marker": "|", "markersize": 12}
_STYLES = {_OF_LAYER: _LAYER, _OF_ALL: _ALL | {"zorder": 4}, _OF_HEAD: _HEAD}


def aer(run_set: RunSet, *, links: Path | None = None) -> Result:
    """Plot the alignment error rate of each run's attention while the run writes the references.

    Args:
        run_set: One or several runs.
        links: A file of the test set's links made by hand; None takes those of the data.

    Raises:
        UserError: no links, links that are not of the test set, or only further decodings.
    """
    gold = gold_links(run_set.data.splits["test"], links)
    if gold is None:
        data = run_set.runs[0].options["data.name"]
        raise UserError(f"data={data} has no word alignments; give a file of them: links=FILE")
    rows = list[Row]()
    for columns, run in run_set.own():
        for source, alignment in run_set.attend(run).items():
            place = {"layer": source.layer or "all", "head": source.head or "all"}
            rate = error_rate(alignment, gold)
            rows.append({**columns, "what": source.what, **place, **rate})
    names = [*dict.fromkeys(row["name"] for row in rows)]
    figure, (axes,) = make_panels(1, 1, 7.2, 1.4 + 0.36 * len(names))
    name_rows([axes], names, range(len(names)))
    shown = dict[str, Line2D]()
    above: Style = {"ha": "center", "fontsize": 7.5, "textcoords": "offset points"}
    for row in (row for row in rows if row["AER"] is not None):
        of_layer = _OF_ALL if row["layer"] == "all" else _OF_LAYER
        kind = _OF_HEAD if row["what"] == "position" else of_layer
        spot, style = (100 * row["AER"], names.index(row["name"])), {"zorder": 3, **_STYLES[kind]}
        (shown[kind],) = axes.plot(*spot, linestyle="", label=kind, **style)
        if kind == _OF_LAYER:
            axes.annotate(str(row["layer"]), spot, (0, 5), color=COLOURS[0], **above)
    axes.set(xlim=(0, 102), xlabel="alignment error rate (%)")
    nothing = Line2D([], [], linestyle="", label="nothing is linked")
    draw_legend(figure, [shown[kind] for kind in _STYLES if kind in shown] or [nothing])
    return Result(figure, rows)
