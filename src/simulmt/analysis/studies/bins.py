"""Sentences in bins, and what each bin is worth."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from matplotlib.figure import Figure

from simulmt.analysis.names import row_names
from simulmt.analysis.studies.lines import draw_line, named_styles, panels
from simulmt.analysis.studies.material import Material, Result, about
from simulmt.analysis.style import DARK, GREY, draw_legend
from simulmt.decoding.instance import Instance
from simulmt.errors import UserError
from simulmt.scoring.score import score

MOST = 20

Needs = Sequence[Sequence[int]] | None


def make_bins(values: Sequence[int], most: int) -> list[range]:
    """Ranges with about as many values in each; equal values are in one.

    Args:
        values: Whole numbers, at least one.
        most: There are at most so many ranges.

    Returns:
        In order, each from its least value to its greatest: `range(3, 6)` holds 3, 4 and 5.
    """
    if not 1 <= most <= MOST:
        raise UserError(f"bins is {most}; choose 1 to {MOST}")
    counts = sorted(Counter(values).items())
    found, first, seen = [], counts[0][0], 0
    for i, (value, count) in enumerate(counts):
        before, seen = seen, seen + count
        full = seen * most // len(values) > before * most // len(values)
        if full or i == len(counts) - 1:
            found.append(range(first, value + 1))
            first = counts[i + 1][0] if i + 1 < len(counts) else value
    return found


def measure(instances: Sequence[Instance], needs: Needs = None) -> dict[str, Any]:
    """Sentences, quality, and latency in words over those that something was written for.

    Args:
        instances: Of a bin, at least one.
        needs: As in `Split`; with them the oracle's DAL over the same sentences, and the regret:
            by how much the DAL is above it.

    Returns:
        A column for each figure; None where there is nothing to count it on.
    """
    scores = score(instances)
    figures = scores["paper", "word"]
    row: dict[str, Any] = {"sentences": scores.sentences, "empty": scores.empty}
    row |= {"BLEU": figures["BLEU"].value, "DAL_word": figures["DAL"].value}
    if needs is None:
        return row
    written = [instance for instance in instances if instance.delays]
    oracle = score(written, needs).oracle["word"]["DAL"].value if written else None
    regret = None if oracle is None else row["DAL_word"] - oracle
    return row | {"oracle_DAL_word": oracle, "regret_word": regret}


def study_bins(
    material: Material,
    value: Callable[[Instance], int],
    names: tuple[str, str],
    most: int,
    needs: Needs = None,
) -> Result:
    """Quality and latency of several runs, bin by bin.

    Args:
        material: The runs; all have decoded the same sentences.
        value: What a sentence is binned by.
        names: Of the value: in the CSV, and on the x axis.
        most: At most so many bins.
        needs: The oracle's, if it is known.
    """
    runs = material.runs
    decoded = [material.instances(run) for run in runs]
    bins = make_bins([value(instance) for instances in decoded for instance in instances], most)
    labels, rows = row_names(runs), list[dict[str, Any]]()
    for name, run, instances in zip(labels, runs, decoded, strict=True):
        for span in bins:
            chosen = [instance for instance in instances if value(instance) in span]
            if chosen:
                ends = {f"{names[0]}_from": span[0], f"{names[0]}_to": span[-1]}
                rows.append({"name": name, **about(run), **ends, **measure(chosen, needs)})
    return Result(_draw(material, rows, bins, names), rows)


def _draw(
    material: Material,
    rows: Sequence[Mapping[str, Any]],
    bins: Sequence[range],
    names: tuple[str, str],
) -> Figure:
    shown = {"BLEU": "BLEU", "DAL_word": "DAL (source words)"}
    if "regret_word" in rows[0]:
        shown["regret_word"] = "DAL − oracle's (words)"
    figure, grid = panels(len(shown), 1, 7, 1.2 + 2.2 * len(shown))
    places = {span[0]: i for i, span in enumerate(bins)}
    lines = dict.fromkeys(row["name"] for row in rows)
    styles = named_styles(material.runs, row_names(material.runs), like_curve=False)
    for axes, (column, label) in zip(grid, shown.items(), strict=True):
        handles = [
            draw_line(axes, _points(rows, places, names[0], column, name), name, styles[name])
            for name in lines
        ]
        axes.set_ylabel(label, fontsize=11)
    if "oracle_DAL_word" in rows[0]:
        first = next(iter(lines))
        oracle = {"color": GREY, "linestyle": (0, (1, 1.5)), "linewidth": 1.6, "marker": ""}
        points = _points(rows, places, names[0], "oracle_DAL_word", first)
        handles.append(draw_line(grid[1], points, "oracle", oracle))
        grid[2].axhline(0, color=DARK, linewidth=0.8, zorder=1)
    draw_legend(figure, handles)
    sizes = {row[f"{names[0]}_from"]: row["sentences"] for row in rows}
    ticks = [f"{_range(span)}\nn={sizes[span[0]]}" for span in bins]
    grid[-1].set_xticks(range(len(bins)), ticks)
    grid[-1].set_xlabel(names[1], fontsize=11)
    return figure


def _points(
    rows: Sequence[Mapping[str, Any]], places: Mapping[int, int], axis: str, column: str, name: str
) -> list[tuple[float, float]]:
    return [
        (places[row[f"{axis}_from"]], row[column])
        for row in rows
        if row["name"] == name and row[column] is not None
    ]


def _range(span: range) -> str:
    return str(span[0]) if len(span) == 1 else f"{span[0]}–{span[-1]}"
