"""Histogram of initial delays: MILk (Arivazhagan et al. 2019), figure 7."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from matplotlib.figure import Figure

from simulmt.analysis.names import row_names, variants
from simulmt.analysis.runs import Run
from simulmt.analysis.studies.lines import named_styles, panels
from simulmt.analysis.studies.material import Material, Result, about
from simulmt.analysis.style import DARK
from simulmt.errors import UserError
from simulmt.options import pick
from simulmt.scoring.conventions import UNITS


def initial_delay(material: Material, *, unit: str = "word") -> Result:
    """How many source units are read before the first target unit is written.

    A fixed schedule always waits for as much, a learned one for as much as the sentence asks for.

    Args:
        material: One or several runs, a panel for each.
        unit: `word`, or `subword` as in the paper.

    Raises:
        UserError: another unit, or runs that wrote nothing.
    """
    pick(dict.fromkeys(UNITS), unit, "unit")
    names, rows = row_names(material.runs), list[dict[str, Any]]()
    for name, run in zip(names, material.runs, strict=True):
        counts = run.scores.initial_delays[unit]
        total = sum(counts.values())
        rows += [
            {"name": name, **about(run), "unit": unit, "first_delay": delay, "sentences": count,
             "share": count / total}
            for delay, count in sorted(counts.items())
        ]  # fmt: skip
    if not rows:
        raise UserError(f"the runs in {material.folder} wrote nothing: there is no first delay")
    return Result(_draw(material.runs, names, rows, unit), rows)


def _draw(
    runs: Sequence[Run], names: Sequence[str], rows: Sequence[Mapping[str, Any]], unit: str
) -> Figure:
    columns = 1 + (len(runs) > 4) + (len(runs) > 12)
    longest = max(len(name) for name in names) + len(", mean 10.00")
    columns = max(min(columns, int(7 / (0.08 * longest))), 1)  # inches
    lines = math.ceil(len(runs) / columns)
    figure, grid = panels(lines, columns, 7, 0.8 + max(1.25 * lines, 1.8))
    kinds = variants(runs)
    styles = named_styles(runs, kinds)
    last = max(row["first_delay"] for row in rows)
    most = 100 * max(row["share"] for row in rows)
    for axes, name, kind in zip(grid, names, kinds, strict=False):
        own = [row for row in rows if row["name"] == name]
        delays, shares = [r["first_delay"] for r in own], [100 * r["share"] for r in own]
        axes.bar(delays, shares, width=0.8, color=styles[kind]["color"], zorder=2)
        axes.set(ylim=(0, 1.05 * most), xlim=(-0.6, last + 0.6))
        mean = sum(d * s for d, s in zip(delays, shares, strict=True)) / 100
        title = f"{name}, mean {mean:.2f}" if own else f"{name}, nothing is written"
        axes.set_title(title, loc="left", fontsize=9.5, pad=3, parse_math=False)
        if own:
            axes.plot([mean], [0], marker="^", markersize=9, color=DARK, markeredgecolor="white",
                      clip_on=False, zorder=4)  # fmt: skip
    for axes in grid[len(runs) :]:
        axes.set_visible(False)
    for axes in grid[max(len(runs) - columns, 0) : len(runs)]:
        axes.tick_params(labelbottom=True)
    figure.supxlabel(f"source {unit}s read before the first {unit} is written", fontsize=11)
    figure.supylabel("sentences (%)", fontsize=11)
    return figure
