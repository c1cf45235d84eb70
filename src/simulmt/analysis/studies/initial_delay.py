"""Histogram of initial delays: MILk (Arivazhagan et al. 2019), figure 7."""

import math
from collections.abc import Mapping, Sequence
from typing import Literal

import numpy as np
from matplotlib.figure import Figure

from simulmt.analysis.figures.panels import make_panels
from simulmt.analysis.figures.style import DARK, Style, named_styles
from simulmt.analysis.runs.run import Row
from simulmt.analysis.studies.run_set import Result, RunSet
from simulmt.analysis.tables.names import line_names
from simulmt.errors import UserError


def initial_delay(run_set: RunSet, *, unit: Literal["word", "subword"] = "word") -> Result:
    """Plot how many source units a run reads before it writes the first target unit.

    A fixed schedule always waits for the same number. A learned schedule waits for as many as the
    sentence needs.

    Args:
        run_set: One or several runs, a panel for each.
        unit: `word`, or `subword` as in the paper.

    Raises:
        UserError: no run wrote a word.
    """
    named, lines = run_set.named(), line_names(run_set.runs)
    rows = list[Row]()
    for columns, run in named:
        counts = run.scores.initial_delays[unit]
        for delay, count in sorted(counts.items()):
            figures = {"sentences": count, "share": count / sum(counts.values())}
            rows.append({**columns, "unit": unit, "first_delay": delay, **figures})
    if not rows:
        what = f"runs={run_set.folder}: no translation has a word, so there are no initial delays"
        raise UserError(f"{what}; give runs that were trained for longer")
    styles = named_styles(run_set.runs, [lines[run.folder] for run in run_set.runs])
    colours = {columns["name"]: styles[lines[run.folder]]["color"] for columns, run in named}
    writing = run_set.runs[0].scores.writing
    first = "character" if unit == "word" and writing.target else unit
    axis = f"source {writing.of_source(unit)}s read before the first {first} is written"
    return Result(_draw(rows, colours, axis), rows)


def _draw(rows: Sequence[Row], colours: Mapping[str, str], axis: str) -> Figure:
    """Draw a panel with bars for each run, and a triangle at the mean."""
    number, longest = len(colours), max(map(len, colours)) + len(", mean 10.00")
    fitting = int(7 / (0.08 * longest))  # titles beside each other in 7 inches
    columns = max(min(1 + (number > 4) + (number > 12), fitting), 1)
    lines = math.ceil(number / columns)
    figure, panels = make_panels(lines, columns, 7, 0.8 + max(1.25 * lines, 1.8))
    last, most = (max(row[key] for row in rows) for key in ("first_delay", "share"))
    for i, axes in enumerate(panels):
        axes.set(ylim=(0, 105 * most), xlim=(-0.6, last + 0.6), visible=i < number)
        axes.tick_params(labelbottom=i >= number - columns)
    mark: Style = {"marker": "^", "markersize": 9, "color": DARK, "markeredgecolor": "white"}
    for axes, (name, colour) in zip(panels, colours.items(), strict=False):
        own = [row for row in rows if row["name"] == name]
        delays = [row["first_delay"] for row in own]
        axes.bar(delays, [100 * row["share"] for row in own], width=0.8, color=colour, zorder=2)
        about = "nothing is written"
        if own:
            mean = np.average(delays, weights=[row["sentences"] for row in own])
            axes.plot([mean], [0], **mark, clip_on=False, zorder=4)
            about = f"mean {mean:.2f}"
        axes.set_title(f"{name}, {about}", loc="left", fontsize=9.5, pad=3, parse_math=False)
    figure.supxlabel(axis, fontsize=11)
    figure.supylabel("sentences (%)", fontsize=11)
    return figure
