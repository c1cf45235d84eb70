"""The alignment error rate of attention, by hand-made alignments: Luong et al. (2015), table 6."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from simulmt.alignment.error_rate import ErrorRate, error_rate
from simulmt.analysis.attention_links import LinkSource
from simulmt.analysis.studies.drawing import name_rows
from simulmt.analysis.studies.run_set import Result, RunSet, gold_links, run_columns
from simulmt.analysis.style import COLOURS, DARK, Style, draw_legend, make_panels
from simulmt.errors import UserError

_OF_LAYER, _OF_ALL = "attention of a layer", "attention of all layers"
_OF_HEAD = "where a head stops"
_STYLES: dict[str, Style] = {
    _OF_LAYER: {"color": COLOURS[0], "marker": "o", "markersize": 7, "markeredgecolor": "white"},
    _OF_ALL: {"color": DARK, "marker": "*", "markersize": 12, "markeredgecolor": "white",
              "zorder": 4},
    _OF_HEAD: {"color": COLOURS[1], "marker": "|", "markersize": 12},
}  # fmt: skip


class Rated(NamedTuple):
    """The alignment error rate of the links from one source in a run."""

    run: str
    source: LinkSource
    rate: ErrorRate


def aer(run_set: RunSet, *, links: str | None = None) -> Result:
    """Plot the alignment error rate of each run's attention while the run writes the references.

    Args:
        run_set: One or several runs.
        links: A file of the test set's links made by hand; None takes those of the data.

    Raises:
        UserError: no links, or links that are not of the test set.
    """
    gold = gold_links(run_set.data.splits["test"], links)
    if gold is None:
        raise UserError(
            f"study=aer: data={run_set.runs[0].options['data.name']} has no word alignments, which "
            "verbfinal has; give a file of the test set's, made by hand: links=FILE"
        )
    rated, rows = list[Rated](), []
    for name, run in run_set.named():
        for source, alignment in run_set.attend(run_set.place(run)).items():
            rate = error_rate(alignment, gold)
            rated.append(Rated(name, source, rate))
            rows.append({
                **run_columns(name, run), "what": source.what, "layer": source.layer or "all",
                "head": source.head or "all", "AER": rate.aer, "precision": rate.precision,
                "recall": rate.recall, "links": rate.links,
            })  # fmt: skip
    return Result(_draw(rated), rows)


def _draw(rated: Sequence[Rated]) -> Figure:
    """Draw a row for each run, with a mark for each source of links."""
    names = [*dict.fromkeys(row.run for row in rated)]
    figure, panels = make_panels(1, 1, 7.2, 1.4 + 0.36 * len(names))
    name_rows(panels, names, range(len(names)))
    used = set()
    for name, source, rate in rated:
        if rate.aer is None:
            continue
        kind = _OF_HEAD if source.what == "position" else _OF_LAYER if source.layer else _OF_ALL
        place = (100 * rate.aer, names.index(name))
        used.add(kind)
        panels[0].plot(*place, **{"zorder": 3, **_STYLES[kind]})
        if kind == _OF_LAYER:
            panels[0].annotate(str(source.layer), place, (0, 5), ha="center", fontsize=7.5,
                               textcoords="offset points", color=COLOURS[0])  # fmt: skip
    panels[0].set(xlim=(0, 102), xlabel="alignment error rate (%)")
    styles = {kind: style for kind, style in _STYLES.items() if kind in used}
    entries = (styles or {"nothing is linked": {}}).items()
    draw_legend(figure, [Line2D([], [], linestyle="", label=k, **style) for k, style in entries])
    return figure
