"""Sentences in bins, and the quality and latency of each bin."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeAlias

from matplotlib.figure import Figure

from simulmt.analysis.studies.drawing import draw_lines, named_styles
from simulmt.analysis.studies.run_set import Result, RunSet, run_columns
from simulmt.analysis.style import DARK, GREY, Style, draw_legend, make_panels
from simulmt.decoding.instance import Instance
from simulmt.errors import UserError
from simulmt.scoring.score import score

MOST = 20
_ORACLE: Style = {"color": GREY, "linestyle": (0, (1, 1.5)), "linewidth": 1.6, "marker": ""}

Needs: TypeAlias = Sequence[Sequence[int]] | None
Figures: TypeAlias = dict[str, float | None]


class Bin(NamedTuple):
    """The sentences of a run whose value is in a range, and their figures."""

    run: str
    place: int
    values: range
    figures: Figures


def make_bins(values: Sequence[int], most: int) -> list[range]:
    """Return ranges with about as many values in each; equal values share a range.

    Args:
        values: Whole numbers, at least one.
        most: The most ranges, 1 to `MOST`.

    Returns:
        In order, each from its least value to its greatest: `range(3, 6)` holds 3, 4 and 5.

    Raises:
        UserError: another number of ranges.
    """
    if not 1 <= most <= MOST:
        raise UserError(f"bins is {most}; choose 1 to {MOST}")
    counts = sorted(Counter(values).items())
    bins, first, seen = [], counts[0][0], 0
    for i, (value, count) in enumerate(counts):
        before, seen = seen, seen + count
        full = seen * most // len(values) > before * most // len(values)
        if full or i == len(counts) - 1:
            bins.append(range(first, value + 1))
            first = counts[i + 1][0] if i + 1 < len(counts) else value
    return bins


def measure(instances: Sequence[Instance], needs: Needs = None) -> Figures:
    """Return the number of sentences, their quality, and the latency in words of the written ones.

    Args:
        instances: The sentences of a bin, at least one.
        needs: As in `Split`. With them come the oracle's DAL over the same sentences, and the
            regret: DAL minus the oracle's.

    Returns:
        A column for each figure; None for a figure without sentences to count.
    """
    scores = score(instances)
    paper = scores["paper", "word"]
    dal = paper["DAL"].value
    figures = {"sentences": scores.sentences, "empty": scores.empty,
               "BLEU": paper["BLEU"].value, "DAL_word": dal}  # fmt: skip
    if needs is None:
        return figures
    written = [instance for instance in instances if instance.delays]
    oracle = score(written, needs).oracle["word"]["DAL"].value if written else None
    regret = None if oracle is None or dal is None else dal - oracle
    return figures | {"oracle_DAL_word": oracle, "regret_word": regret}


def study_bins(
    run_set: RunSet,
    value: Callable[[Instance], int],
    names: tuple[str, str],
    most: int,
    needs: Needs = None,
) -> Result:
    """Plot quality and latency of several runs, bin by bin.

    Args:
        run_set: The runs; all have decoded the same sentences.
        value: Returns the value that puts a sentence into a bin.
        names: The value's name in the CSV, and on the x axis.
        most: The most bins.
        needs: The source words that the oracle needs, if known.
    """
    decoded = [(name, run, run_set.instances(run)) for name, run in run_set.named()]
    ranges = make_bins([value(i) for _, _, instances in decoded for i in instances], most)
    bins, rows = list[Bin](), []
    for name, run, instances in decoded:
        for place, values in enumerate(ranges):
            inside = [instance for instance in instances if value(instance) in values]
            if inside:
                bins.append(Bin(name, place, values, measure(inside, needs)))
                ends = {f"{names[0]}_from": values[0], f"{names[0]}_to": values[-1]}
                rows.append({**run_columns(name, run), **ends, **bins[-1].figures})
    return Result(_draw(run_set, bins, names[1]), rows)


def _draw(run_set: RunSet, bins: Sequence[Bin], axis: str) -> Figure:
    shown = {"BLEU": "BLEU", "DAL_word": "DAL (source words)"}
    oracle = "regret_word" in bins[0].figures
    if oracle:
        shown["regret_word"] = "DAL − oracle's (words)"
    figure, panels = make_panels(len(shown), 1, 7, 1.2 + 2.2 * len(shown))
    names = [name for name, _ in run_set.named()]
    styles = named_styles(run_set.runs, names, like_curve=False)
    for axes, (column, label) in zip(panels, shown.items(), strict=True):
        points = [(part.run, part.place, part.figures[column]) for part in bins]
        handles = draw_lines(axes, points, styles)
        axes.set_ylabel(label)
    if oracle:
        own = [part for part in bins if part.run == names[0]]
        line = [("oracle", part.place, part.figures["oracle_DAL_word"]) for part in own]
        handles += draw_lines(panels[1], line, {"oracle": _ORACLE})
        panels[2].axhline(0, color=DARK, linewidth=0.8, zorder=1)
    draw_legend(figure, handles)
    ticks = {
        part.place: f"{'–'.join(str(v) for v in sorted({part.values[0], part.values[-1]}))}\n"
        f"n={part.figures['sentences']}"
        for part in bins
    }
    panels[-1].set_xticks([*ticks], [*ticks.values()])
    panels[-1].set_xlabel(axis)
    return figure
