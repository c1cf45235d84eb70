"""The panels of a figure: axes, legends, lines, and how a figure is saved."""

import logging
import re
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from statistics import fmean
from typing import Any

from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.font_manager import fontManager
from matplotlib.lines import Line2D
from matplotlib.text import Text

from simulmt.analysis.figures.style import Style
from simulmt.system.console import warn
from simulmt.system.disk import replacing

DPI = 150
FONT_SIZE = 10
"""Of the text of a legend, in points."""
_LEGEND = 0.17  # share of the usual height that a legend may fill
_FONTS = ["DejaVu Sans", "Noto Sans CJK SC", "Noto Sans CJK JP", "WenQuanYi Zen Hei"]
_FONTS += ["PingFang SC", "Hiragino Sans", "Microsoft YaHei", "Arial Unicode MS"]
_MISSING = "Glyph .* missing from font"


def make_panels(rows: int, columns: int, width: float, height: float) -> tuple[Figure, list[Axes]]:
    """Return a figure, `width` by `height` inches, and its axes from left to right and down."""
    figure = Figure(figsize=(width, height), dpi=DPI, layout="constrained")
    panels: list[Axes] = list(figure.subplots(rows, columns, sharex="col", squeeze=False).flat)
    for axes in panels:
        axes.grid(color="#e6e6e6", linewidth=0.6)
        axes.set_axisbelow(True)
        axes.spines[["top", "right"]].set_visible(False)
        axes.xaxis.label.set_fontsize(11)
        axes.yaxis.label.set_fontsize(11)
    return figure, panels


def draw_legend(figure: Figure, handles: Sequence[Line2D]) -> None:
    """Draw a legend above the axes, where it hides nothing, in as many columns as fit.

    A long legend makes the figure higher, not the axes lower.
    """
    longest = max(len(str(handle.get_label())) for handle in handles)
    columns = min(4, len(handles), int(figure.get_figwidth() * 70 / (62 + 6 * longest)))
    look: Style = {"frameon": False, "fontsize": FONT_SIZE, "handlelength": 3.6}
    look |= {"columnspacing": 1.8, "loc": "outside upper center", "ncols": max(columns, 1)}
    for text in figure.legend(handles=handles, **look).get_texts():
        text.set_parse_math(False)  # a dollar sign stays a dollar sign
    figure.set_layout_engine("none")  # the legend may not fit yet
    with lettering(figure):
        figure.draw_without_rendering()
        high = figure.legends[0].get_window_extent().height / figure.dpi
    figure.set_layout_engine("constrained")
    usual = figure.get_figheight()
    figure.set_figheight(usual + max(high - _LEGEND * usual, 0.0))


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
    ticks = sorted({*values})
    axes.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    axes.set_xticks([], minor=True)


def name_rows(panels: Sequence[Axes], names: Sequence[str], places: Sequence[float]) -> None:
    """Name rows from top to bottom, at these heights, beside the first of several panels."""
    for axes in panels:
        axes.set_ylim(places[-1] + 0.7, places[0] - 0.7)
        axes.set_yticks(places, names, parse_math=False)
        axes.tick_params(labelleft=axes is panels[0])


def save(figure: Figure, paths: Sequence[Path], dpi: float = DPI, **options: Any) -> None:
    """Write a figure; the suffix of each path (.png, .svg, .pdf) selects the format.

    The same figure gives the same bytes: no date, and no random names in an SVG.

    Args:
        figure: The figure.
        paths: The files to write.
        dpi: The pixels per inch of a PNG.
        options: Further options of `Figure.savefig`.
    """
    logging.getLogger("fontTools").setLevel(logging.WARNING)  # else a line for each table of a PDF
    with lettering(figure), rc_context({"svg.hashsalt": "simulmt", "pdf.fonttype": 42}):
        for path in paths:
            kind = path.suffix[1:].lower()
            undated = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}.get(kind)
            with replacing(path) as unfinished:
                figure.savefig(unfinished, format=kind, metadata=undated, dpi=dpi, **options)


@contextmanager
def lettering(figure: Figure | None = None) -> Iterator[None]:
    """Draw and measure the letters of every script that has a font here; warn once of others.

    Args:
        figure: Its texts get the fonts, too; texts that are made here have them anyway.
    """
    here = fontManager.get_font_names()
    fonts = [name for name in _FONTS if name in here]
    for text in figure.findobj(Text) if figure else ():
        text.set_fontfamily(fonts)
    with rc_context({"font.family": fonts}), warnings.catch_warnings(record=True) as caught:
        warnings.filterwarnings("always", _MISSING)
        yield
    for other in caught:
        if re.match(_MISSING, str(other.message)):  # matplotlib draws other letters instead
            warn("no font here has all letters of a picture: install one, such as Noto Sans CJK")
        else:
            warnings.warn_explicit(other.message, other.category, other.filename, other.lineno)
