"""Lines along an axis and rows with names, for the figures of several studies."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from statistics import fmean

from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.ticker import FixedLocator, NullLocator, StrMethodFormatter

from simulmt.analysis.names import variants
from simulmt.analysis.runs import Run
from simulmt.analysis.style import DASHES, Style, line_styles


def line_names(runs: Sequence[Run], axis: Sequence[str]) -> list[str]:
    """Return a name for each run; runs that differ in the options of an axis alone share a name.

    The name is that in the quality-latency curve, with k and weights where these differ, too.
    """
    lines = variants(runs, ("mechanism.k", *axis))
    names = [lines[run.folder] for run in runs]
    dials = [" ".join(d for d in run.dials() if d.split("=")[0] not in axis) for run in runs]
    times = Counter(name for name, _ in {*zip(names, dials, strict=True)})
    return [f"{n} {d}".strip() if times[n] > 1 else n for n, d in zip(names, dials, strict=True)]


def named_styles(
    runs: Sequence[Run], names: Sequence[str], *, like_curve: bool = True
) -> dict[str, Style]:
    """Return the style of each name.

    Lines of runs that read the whole sentence first are thin and differ in their dashes.

    Args:
        runs: The runs.
        names: The name of each run; several runs may share a name.
        like_curve: Whether names get their styles in alphabetical order, as in the quality-latency
            curve, or in the order of the runs.
    """
    offline = {name: run.traits.offline for name, run in zip(names, runs, strict=True)}
    ordered = sorted(offline) if like_curve else list(offline)
    styles = dict(zip(ordered, line_styles([offline[name] for name in ordered]), strict=True))
    for i, name in enumerate(name for name in ordered if offline[name]):
        styles[name] |= {"linestyle": (0, DASHES[i % len(DASHES)]), "linewidth": 1.1}
    return styles


def draw_lines(
    axes: Axes, points: Iterable[tuple[str, float, float | None]], styles: Mapping[str, Style]
) -> list[Line2D]:
    """Draw a line for each name: a marker for each point, joined by the means at each x.

    Args:
        axes: The axes to draw on.
        points: The name of its line, x, and y of each point; y is None where there is no figure.
        styles: The style of each line, in the order of the legend.

    Returns:
        The entries of the legend.
    """
    lines: dict[str, dict[float, list[float]]] = {name: {} for name in styles}
    for name, x, y in points:
        if y is not None:
            lines[name].setdefault(x, []).append(y)
    for name, line in lines.items():
        style, xs = styles[name], sorted(line)
        places = [(x, y) for x in xs for y in line[x]]
        axes.plot([x for x, _ in places], [y for _, y in places], **{**style, "linestyle": ""})
        axes.plot(xs, [fmean(line[x]) for x in xs], **{**style, "marker": "", "zorder": 2})
    return [Line2D([], [], **{**style, "label": name}) for name, style in styles.items()]


def mark_numbers(axes: Axes, values: Iterable[float]) -> None:
    """Put ticks at these numbers of the x axis and nowhere else."""
    axes.xaxis.set_major_locator(FixedLocator(sorted({*values})))
    axes.xaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
    axes.xaxis.set_minor_locator(NullLocator())


def name_rows(panels: Sequence[Axes], names: Sequence[str], places: Sequence[float]) -> None:
    """Name rows from top to bottom, at these heights, beside the first of several panels."""
    for axes in panels:
        axes.set_ylim(places[-1] + 0.7, places[0] - 0.7)
        axes.set_yticks(places, names, parse_math=False)
        axes.tick_params(labelleft=axes is panels[0])
