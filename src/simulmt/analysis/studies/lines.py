"""Lines of runs along an axis, and panels of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from simulmt.analysis.names import variants
from simulmt.analysis.runs import Run
from simulmt.analysis.style import DASHES, DPI, line_styles, plain_axes


def line_names(runs: Sequence[Run], axis: Sequence[str]) -> list[str]:
    """A name for each run, the same for those that differ in the options of an axis alone.

    It is the name in the quality-latency curve; k and weights are added where they differ, too.
    """
    names = variants(runs, axis)
    dials = [[d for d in run.dials() if d.split("=")[0] not in axis] for run in runs]
    several = {
        name: len({tuple(d) for d, other in zip(dials, names, strict=True) if other == name}) > 1
        for name in set(names)
    }
    return [" ".join([n, *d]) if several[n] else n for n, d in zip(names, dials, strict=True)]


def named_styles(
    runs: Sequence[Run], names: Sequence[str], *, like_curve: bool = True
) -> dict[str, dict[str, Any]]:
    """The style of each name.

    Lines of those that read the whole sentence first are thin and differ in their dashes.

    Args:
        runs: Some runs.
        names: Of each; several may share one.
        like_curve: Whether styles go by names in order, as the quality-latency curve has them, or
            to one name after the other.
    """
    offline = {name: run.trait("offline") for name, run in zip(names, runs, strict=True)}
    ordered = sorted(offline) if like_curve else list(offline)
    styles = dict(zip(ordered, line_styles([offline[name] for name in ordered]), strict=True))
    for i, name in enumerate(name for name in ordered if offline[name]):
        styles[name] |= {"linestyle": (0, DASHES[i % len(DASHES)]), "linewidth": 1.1}
    return styles


def panels(rows: int, columns: int, width: float, height: float) -> tuple[Figure, list[Axes]]:
    """A figure, `width` by `height` inches, and its axes from left to right and down."""
    figure = Figure(figsize=(width, height), dpi=DPI, layout="constrained")
    grid = figure.subplots(rows, columns, sharex="col", squeeze=False)
    found: list[Axes] = list(grid.flat)
    for axes in found:
        plain_axes(axes)
    return figure, found


def draw_line(
    axes: Axes, points: Sequence[tuple[float, float]], name: str, style: Mapping[str, Any]
) -> Line2D:
    """A marker for each point, a line through the means of those at one x; its legend entry."""
    axes.plot([x for x, _ in points], [y for _, y in points], **{**style, "linestyle": ""})
    xs = sorted({x for x, _ in points})
    means = [fmean(y for other, y in points if other == x) for x in xs]
    axes.plot(xs, means, **{**style, "marker": "", "zorder": 2})
    return Line2D([], [], **{**style, "label": name})
