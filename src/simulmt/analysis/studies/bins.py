"""Quality and latency by the length of sentences, or by how far they are reordered, in bins."""

from bisect import bisect_left
from collections.abc import Callable, Sequence
from itertools import groupby
from typing import Annotated, TypeAlias

from annotated_types import Ge, Le
from matplotlib.figure import Figure

from simulmt.analysis.figures.panels import draw_legend, draw_lines, make_panels
from simulmt.analysis.figures.style import DARK, GREY, named_styles
from simulmt.analysis.runs.run import Row
from simulmt.analysis.studies.run_set import Result, RunSet
from simulmt.data.corpus import Split
from simulmt.decoding.instance import Instance
from simulmt.errors import UserError
from simulmt.scoring.conventions import check_bleu
from simulmt.scoring.score import oracle_latencies, score

Bins: TypeAlias = Annotated[int, Ge(1), Le(20)]
"""The most bins of a figure."""


def make_bins(values: Sequence[int], most: int) -> list[range]:
    """Return ranges with about as many values in each; equal values share a range.

    Args:
        values: Whole numbers, at least one.
        most: The most ranges.

    Returns:
        In order, each from its least value to its greatest: `range(3, 6)` holds 3, 4 and 5.
    """
    ordered = sorted(values)
    parts = groupby(ordered, lambda value: bisect_left(ordered, value) * most // len(ordered))
    bins = ([*part] for _, part in parts)
    return [range(part[0], part[-1] + 1) for part in bins]


def measure(instances: Sequence[Instance], needs: Sequence[Sequence[int]] | None = None) -> Row:
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
    figures: Row = {"sentences": scores.sentences, "empty": scores.empty}
    figures |= {"BLEU": paper["BLEU"].value, "DAL_word": dal}
    if needs is None:
        return figures
    written = [instance for instance in instances if instance.delays]
    oracle = oracle_latencies(written, needs)["DAL"].value
    regret = None if oracle is None or dal is None else dal - oracle
    return figures | {"oracle_DAL_word": oracle, "regret_word": regret}


def by_length(run_set: RunSet, *, bins: Bins = 6) -> Result:
    """Plot BLEU and DAL by the length of sentences, in source words.

    Each bin is a corpus for BLEU. DAL grows with length where a model waits for the end.

    Args:
        run_set: One or several runs.
        bins: The most bins, with about as many sentences in each.
    """
    unit = run_set.runs[0].scores.writing.of_source()
    names = ("source_words", f"source length ({unit}s)")
    return _study(run_set, lambda instance: instance.source_length, names, bins)


def reordering_distance(needs: Sequence[int]) -> int:
    r"""Return the least k with which wait-k reads each source word before the reference needs it.

    .. math:: \max_i \, [ a_i - (i - 1) ]

    where :math:`a_i` is the last source word that target word :math:`i` is aligned to: wait-k has
    read :math:`k + i - 1` words when it writes word :math:`i` (Ma et al. 2019, STACL, eq. 6). At
    least 1.

    Args:
        needs: The number of source words that each target word needs; see `Split`.
    """
    return max([1, *(need - i for i, need in enumerate(needs))])


def by_reordering(run_set: RunSet, *, bins: Bins = 6) -> Result:
    """Plot BLEU, DAL, and DAL above the oracle's, by the reordering distance of sentences.

    Args:
        run_set: One or several runs on data with word alignments.
        bins: The most bins, with about as many sentences in each.

    Raises:
        UserError: the data have no word alignments, or are not those that were decoded.
    """
    split = run_set.data.splits["test"]
    if split.needs is None:
        data = run_set.runs[0].options["data.name"]
        raise UserError(f"data={data} has no word alignments; take study=by_length")
    distances = [reordering_distance(needs) for needs in split.needs]
    names = ("reordering_distance", "reordering distance (the least k that wait-k needs)")
    return _study(run_set, lambda i: distances[i.index], names, bins, split)


def _study(
    run_set: RunSet,
    value: Callable[[Instance], int],
    names: tuple[str, str],
    most: int,
    split: Split | None = None,
) -> Result:
    """Plot quality and latency of several runs, bin by bin.

    Args:
        run_set: The runs; all have decoded the same sentences.
        value: Returns the value that puts a sentence into a bin.
        names: The value's name in the CSV, and on the x axis.
        most: The most bins.
        split: The test set, if the source words that the oracle needs are known.
    """
    check_bleu(run_set.runs[0].scores.writing)
    decoded = [(columns, run_set.instances(run, split)) for columns, run in run_set.named()]
    ranges = make_bins([value(i) for _, instances in decoded for i in instances], most)
    rows = list[Row]()
    for columns, instances in decoded:
        for values in ranges:
            inside = [instance for instance in instances if value(instance) in values]
            if inside:
                ends = {f"{names[0]}_from": values[0], f"{names[0]}_to": values[-1]}
                rows.append({**columns, **ends, **measure(inside, split.needs if split else None)})
    return Result(_draw(run_set, rows, *names), rows)


def _draw(run_set: RunSet, rows: Sequence[Row], value: str, axis: str) -> Figure:
    unit = run_set.runs[0].scores.writing.of_source()
    shown = {"BLEU": "BLEU", "DAL_word": f"DAL (source {unit}s)"}
    oracle = "regret_word" in rows[0]
    if oracle:
        shown["regret_word"] = f"DAL − oracle's ({unit}s)"
    figure, panels = make_panels(len(shown), 1, 7, 1.2 + 2.2 * len(shown))
    names = [columns["name"] for columns, _ in run_set.named()]
    looks = named_styles(run_set.runs, names)
    styles = {name: looks[name] for name in names}  # in the order of the runs
    lows = sorted({row[f"{value}_from"] for row in rows})
    placed = [(lows.index(row[f"{value}_from"]), row) for row in rows]
    for axes, (column, label) in zip(panels, shown.items(), strict=True):
        points = [(row["name"], place, row[column]) for place, row in placed]
        handles = draw_lines(axes, points, styles)
        axes.set_ylabel(label)
    if oracle:
        line = [("oracle", x, r["oracle_DAL_word"]) for x, r in placed if r["name"] == names[0]]
        dotted = {"color": GREY, "linestyle": (0, (1, 1.5)), "linewidth": 1.6, "marker": ""}
        handles += draw_lines(panels[1], line, {"oracle": dotted})
        panels[2].axhline(0, color=DARK, linewidth=0.8, zorder=1)
    draw_legend(figure, handles)
    ticks = {}
    for place, row in placed:
        ends = dict.fromkeys((row[f"{value}_from"], row[f"{value}_to"]))  # one if they are equal
        ticks[place] = f"{'–'.join(map(str, ends))}\nn={row['sentences']}"
    panels[-1].set_xticks([*ticks], [*ticks.values()])
    panels[-1].set_xlabel(axis)
    return figure
