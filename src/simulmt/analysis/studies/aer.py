"""How far attention is from word alignments made by hand: Luong et al. (2015), table 6."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from simulmt.alignment.error_rate import error_rate
from simulmt.alignment.links import Gold, known_links, read_links
from simulmt.analysis.names import row_names
from simulmt.analysis.studies.lines import panels
from simulmt.analysis.studies.material import Material, Result, about
from simulmt.analysis.style import COLOURS, DARK, draw_legend
from simulmt.data.corpus import Split
from simulmt.errors import UserError

_STYLES: dict[str, dict[str, Any]] = {
    "attention of a layer": {
        "color": COLOURS[0],
        "marker": "o",
        "markersize": 7,
        "markeredgecolor": "white",
    },
    "attention of all layers": {
        "color": DARK,
        "zorder": 4,
        "marker": "*",
        "markersize": 12,
        "markeredgecolor": "white",
    },
    "where a head stops": {"color": COLOURS[1], "marker": "|", "markersize": 12},
}


def aer(material: Material, *, links: str | None = None) -> Result:
    """Alignment error rate of each run's attention, as it writes the references.

    Args:
        material: One or several runs.
        links: A file of the test set's links made by hand; None: those of the data.

    Raises:
        UserError: no links, or links that are not of the test set.
    """
    first = material.runs[0]
    split = material.read(material.place(first)).splits["test"]
    gold = _gold(split, links, str(first.options["data.name"]))
    rows = []
    for name, run in zip(row_names(material.runs), material.runs, strict=True):
        for way, found in material.attend(material.place(run)).items():
            rate = error_rate(found, gold)
            where = {"layer": way.layer or "all", "head": way.head or "all"}
            rows.append({
                "name": name, **about(run), "what": way.what, **where,
                "AER": rate.aer, "precision": rate.precision, "recall": rate.recall,
                "links": rate.links,
            })  # fmt: skip
    return Result(_draw(rows), rows)


def _gold(split: Split, file: str | None, data: str) -> list[Gold]:
    if file is not None:
        return read_links(Path(file), split.sources, split.targets)
    if split.links is None:
        raise UserError(
            f"study=aer: data={data} has no word alignments, which verbfinal has; give a file of "
            "the test set's, made by hand: links=FILE"
        )
    return [known_links(sentence) for sentence in split.links]


def _draw(rows: Sequence[Mapping[str, Any]]) -> Figure:
    """A line for each run, and on it a mark for each way to read links off."""
    names = [*dict.fromkeys(row["name"] for row in rows)]
    figure, (axes,) = panels(1, 1, 7.2, 1.4 + 0.36 * len(names))
    axes.set_ylim(len(names) - 0.4, -0.6)
    used = dict.fromkeys(_STYLES, False)
    for row in rows:
        if row["AER"] is None:
            continue
        kind = _kind(row)
        used[kind] = True
        y = names.index(row["name"])
        axes.plot(100 * row["AER"], y, **{"zorder": 3, **_STYLES[kind]})
        if kind == "attention of a layer":
            axes.annotate(str(row["layer"]), (100 * row["AER"], y), (0, 5), ha="center",
                          textcoords="offset points", fontsize=7.5, color=COLOURS[0])  # fmt: skip
    axes.set_yticks(range(len(names)), names)
    for label in axes.get_yticklabels():
        label.set_parse_math(False)
    axes.set_xlim(0, 102)
    axes.set_xlabel("alignment error rate (%)", fontsize=11)
    draw_legend(figure, [
        Line2D([], [], linestyle="", label=kind, **style)
        for kind, style in _STYLES.items() if used[kind]
    ] or [Line2D([], [], linestyle="", label="nothing is linked")])  # fmt: skip
    return figure


def _kind(row: Mapping[str, Any]) -> str:
    if row["what"] == "position":
        return "where a head stops"
    return f"attention of {'all layers' if row['layer'] == 'all' else 'a layer'}"
