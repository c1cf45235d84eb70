"""Histogram of initial delays: MILk (Arivazhagan et al. 2019), figure 7."""

import math
from collections.abc import Mapping, Sequence
from typing import Literal

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from simulmt.analysis.names import variants
from simulmt.analysis.studies.run_set import Result, RunSet
from simulmt.analysis.style import DARK, make_panels, named_styles
from simulmt.errors import UserError


def initial_delay(run_set: RunSet, *, unit: Literal["word", "subword"] = "word") -> Result:
    """Plot how many source units a run reads before it writes the first target unit.

    A fixed schedule always waits for the same number. A learned schedule waits for as many as the
    sentence needs.

    Args:
        run_set: One or several runs, a panel for each.
        unit: `word`, or `subword` as in the paper.

    Raises:
        UserError: runs that wrote nothing.
    """
    histograms: dict[str, dict[int, int]] = {}
    rows = []
    for columns, run in run_set.named():
        counts = dict(sorted(run.scores.initial_delays[unit].items()))
        histograms[columns["name"]], total = counts, sum(counts.values())
        rows += [
            {**columns, "unit": unit, "first_delay": delay, "sentences": count,
             "share": count / total}
            for delay, count in counts.items()
        ]  # fmt: skip
    if not rows:
        raise UserError(f"the runs in {run_set.folder} wrote nothing: there is no first delay")
    lines = variants(run_set.runs)
    names = [lines[run.folder] for run in run_set.runs]
    styles = named_styles(run_set.runs, names)
    return Result(_draw(histograms, [styles[name]["color"] for name in names], unit), rows)


def _draw(histograms: Mapping[str, Mapping[int, int]], colours: Sequence[str], unit: str) -> Figure:
    number, longest = len(histograms), max(map(len, histograms)) + len(", mean 10.00")
    fitting = int(7 / (0.08 * longest))  # titles beside each other in 7 inches
    columns = max(min(1 + (number > 4) + (number > 12), fitting), 1)
    lines = math.ceil(number / columns)
    figure, panels = make_panels(lines, columns, 7, 0.8 + max(1.25 * lines, 1.8))
    written = [counts for counts in histograms.values() if counts]
    last = max(map(max, written))
    most = 100 * max(max(counts.values()) / sum(counts.values()) for counts in written)
    for axes, (name, counts), colour in zip(panels, histograms.items(), colours, strict=False):
        axes.set(ylim=(0, 1.05 * most), xlim=(-0.6, last + 0.6))
        title = f"{name}, {_draw_histogram(axes, counts, colour)}"
        axes.set_title(title, loc="left", fontsize=9.5, pad=3, parse_math=False)
    for i, axes in enumerate(panels):
        axes.set_visible(i < number)
        axes.tick_params(labelbottom=i >= number - columns)
    figure.supxlabel(f"source {unit}s read before the first {unit} is written", fontsize=11)
    figure.supylabel("sentences (%)", fontsize=11)
    return figure


def _draw_histogram(axes: Axes, counts: Mapping[int, int], colour: str) -> str:
    """Draw bars and a triangle at the mean; returns the end of the title."""
    if not counts:
        return "nothing is written"
    total = sum(counts.values())
    mean = sum(delay * count for delay, count in counts.items()) / total
    shares = [100 * count / total for count in counts.values()]
    axes.bar([*counts], shares, width=0.8, color=colour, zorder=2)
    axes.plot([mean], [0], marker="^", markersize=9, color=DARK, markeredgecolor="white",
              clip_on=False, zorder=4)  # fmt: skip
    return f"mean {mean:.2f}"
