"""The read/write path of a decoded sentence, in the terminal and as a picture."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter
from pathlib import Path

from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.collections import PatchCollection
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Circle, Patch
from rich.cells import cell_len, set_cell_size
from rich.console import Group
from rich.text import Text

from simulmt.decoding.instance import Instance, word_positions

_READ, _NEW, _PATH, _HEAD = "#e3ecf5", "#a9c8e8", "#1f4e79", "#d95f02"
_NOTHING = "(nothing was written)"


@dataclass(frozen=True)
class _Grid:
    """Source units by target units: what had been read, where the heads stood."""

    columns: Sequence[str]
    rows: Sequence[str]
    delays: Sequence[int]
    heads: Sequence[Counter[int]]

    def steps(self) -> Iterator[tuple[str, int, int, Counter[int]]]:
        """For each target unit: itself, its predecessor's delay, its delay, heads by column."""
        return zip(self.rows, [0, *self.delays], self.delays, self.heads, strict=False)

    def most_heads(self) -> int:
        """The most heads that stand in one place."""
        return max((n for row in self.heads for n in row.values()), default=0)


def interleaved(instance: Instance) -> str:
    """The path in one line: `der alte Bauer | the old farmer | ging heim | went home`."""
    texts = [] if instance.delays[:1] != (0,) else [""]
    for kind, run in groupby(_events(instance), key=itemgetter(0)):
        words = " ".join(word for _, word in run)
        texts.append(f"(not read: {words})" if kind == "LEFT" else words)
    return " | ".join(texts)


def render_path(instance: Instance, console_width: int) -> Group:
    """The path as a grid for the terminal: a row per written word, a column per source word.

    A sentence too wide for the console is shown as two lanes, READ above WRITE, along the time
    axis instead.

    Args:
        instance: The decoded sentence.
        console_width: Columns there are to draw in.
    """
    grid = _word_grid(instance)
    lines = [*_grid_lines(grid)]
    if max(line.cell_len for line in lines) > console_width:
        lines = [*_lanes(instance, console_width)]
    elif instance.delays:
        lines.append(_key(grid))
    if not instance.delays:
        lines.append(Text(_NOTHING, style="italic"))
    title = Text(f"sentence {instance.index}", style="bold")
    return Group(title, *lines, Text.assemble(("reference: ", "dim"), instance.reference))


def draw_path(instance: Instance, path: Path) -> None:
    """Draw one sentence's path; see `draw_paths`."""
    draw_paths([instance], path)


def draw_paths(instances: Sequence[Instance], path: Path) -> None:
    """Draw the paths of a few sentences below each other.

    Source on the x axis, target from top to bottom, in subwords where the instance has them. The
    line steps right with every read and down with every write; circles are heads, their area
    the number of heads that had stopped there.

    Args:
        instances: The sentences, at least one.
        path: Where to write the picture; the suffix (.png, .svg, .pdf) says which kind.
    """
    grids = [_piece_grid(instance) for instance in instances]
    cell = min(0.34, max(0.15, 24 / max(len(grid.columns) + 1 for grid in grids)))
    names = [name for grid in grids for name in grid.columns]
    gap = 0.7 + 0.006 * _font(cell) * max(map(len, names), default=0)
    heights = [max(len(grid.rows), 1) * cell for grid in grids]
    width, height = 10.0, sum(heights) + gap * len(grids)
    figure = Figure(figsize=(width, height))
    most = max(grid.most_heads() for grid in grids)
    bottom = height
    for instance, grid, panel in zip(instances, grids, heights, strict=True):
        bottom -= gap + panel
        across = max(len(grid.columns), 1) * cell
        axes = figure.add_axes((0, bottom / height, across / width, panel / height))
        axes.set_title(f"sentence {instance.index}", loc="left", fontsize=10, fontweight="bold")
        _draw(axes, grid, cell, most)
    axes.legend(
        handles=_handles(cell, most), loc="upper left", bbox_to_anchor=(0, 0), ncols=5,
        frameon=False, fontsize=8, borderaxespad=0.8,
    )  # fmt: skip
    # the same sentence gives the same bytes: no date and no random names in an SVG
    metadata = {"Date": None} if path.suffix == ".svg" else None
    with rc_context({"svg.hashsalt": "simulmt"}):
        figure.savefig(path, dpi=150, bbox_inches="tight", pad_inches=0.1, metadata=metadata)


def _draw(axes: Axes, grid: _Grid, cell: float, most: int) -> None:
    """One panel; a cell is one unit of its axes."""
    columns, rows = max(len(grid.columns), 1), max(len(grid.rows), 1)
    font = _font(cell)
    axes.set(xlim=(0, columns), ylim=(rows, 0))
    axes.spines[:].set_visible(False)
    axes.tick_params(length=0, top=False, labeltop=True, labelbottom=False, pad=3)
    axes.set_xticks([j + 0.5 for j in range(len(grid.columns))], grid.columns)
    axes.set_yticks([i + 0.5 for i in range(len(grid.rows))], grid.rows)
    for label in axes.get_xticklabels():
        label.set(fontsize=font, parse_math=False, rotation=45, ha="left", va="bottom")
        label.set_rotation_mode("anchor")
    for label in axes.get_yticklabels():
        label.set(fontsize=font, parse_math=False)
    if not grid.rows:
        axes.set_xlabel(_NOTHING, loc="left")
    axes.vlines(range(columns + 1), 0, rows, colors="#c8c8c8", linewidth=0.4)
    axes.hlines(range(rows + 1), 0, columns, colors="#c8c8c8", linewidth=0.4)
    corners, circles = [(0, 0)], []
    for i, (_, before, delay, heads) in enumerate(grid.steps()):
        axes.barh(i + 0.5, before, height=1, color=_READ)
        axes.barh(i + 0.5, delay - before, left=before, height=1, color=_NEW)
        corners += [(delay, i), (delay, i + 1)]
        circles += [Circle((j - 0.5, i + 0.5), _radius(n, most)) for j, n in heads.items()]
    axes.plot(*zip(*corners, strict=True), color=_PATH, linewidth=2, clip_on=False)
    marks = PatchCollection(circles, facecolor=_HEAD, edgecolor="white", linewidth=0.5, zorder=3)
    axes.add_collection(marks)


def _font(cell: float) -> float:
    return min(10.0, cell * 72 * 0.6)


def _radius(count: int, most: int) -> float:
    """In cells; the area is proportional to the number of heads."""
    return 0.42 * math.sqrt(count / most)


def _handles(cell: float, most: int) -> list[Patch | Line2D]:
    """The legend's entries."""
    handles: list[Patch | Line2D] = [
        Patch(color=_NEW, label="read for this row"),
        Patch(color=_READ, label="read before"),
        Line2D([], [], color=_PATH, linewidth=2, label="path"),
    ]
    for count in sorted({1, most}) if most else ():
        size = 2 * 72 * cell * _radius(count, most)
        label = "1 head" if count == 1 else f"{count} heads"
        mark = Line2D([], [], linestyle="", marker="o", color=_HEAD, markersize=size, label=label)
        handles.append(mark)
    return handles


def _word_grid(instance: Instance) -> _Grid:
    heads = word_positions(instance)
    return _grid(instance.source.split(), instance.prediction.split(), instance.delays, heads)


def _piece_grid(instance: Instance) -> _Grid:
    """In subwords, or in words where the instance has no subwords."""
    rows, delays = instance.target_pieces, instance.subword_delays
    if not instance.source_pieces or len(rows) != len(delays):
        return _word_grid(instance)
    return _grid(instance.source_pieces, rows, delays, instance.positions)


def _grid(
    columns: Sequence[str], rows: Sequence[str], delays: Sequence[int],
    positions: Sequence[Sequence[int]],
) -> _Grid:  # fmt: skip
    """A column for EOS is there only if a head went to it; then, EOS has been read."""
    n = len(columns)
    heads = [positions[i] if i < len(positions) else () for i in range(len(rows))]
    if any(position > n for row in heads for position in row):
        columns = [*columns, "</s>"]
    reach = [max((p for p in row if p > n), default=0) for row in heads]
    delays = [max(min(d, n), min(r, n + 1)) for d, r in zip(delays, reach, strict=True)]
    return _Grid(columns, rows, delays, [Counter(min(p, n + 1) for p in row) for row in heads])


def _grid_lines(grid: _Grid) -> Iterator[Text]:
    margin = max(map(cell_len, grid.rows), default=0)
    yield Text(" " * (margin + 5) + " ".join(grid.columns), style="bold", no_wrap=True)
    for name, before, delay, heads in grid.steps():
        line = Text(f"{delay:3} {set_cell_size(name, margin)}", no_wrap=True)
        for j, column in enumerate(grid.columns, start=1):
            width = max(cell_len(column), 1)
            cell = "·".center(width) if j > delay else ("░" if j <= before else "█") * width
            middle = (width - 1) // 2
            line.append(" " + cell[:middle], "blue")
            mark = str(heads[j]) if heads[j] < 10 else "+"
            line.append(*((mark, "bold yellow") if heads[j] else (cell[middle], "blue")))
            line.append(cell[middle + 1 :], "blue")
        yield line


def _key(grid: _Grid) -> Text:
    key = "█ read for this word   ░ read before   · not read"
    heads = "   digit: heads that stopped there (+: ten or more)"
    return Text(key + heads * (grid.most_heads() > 0), style="dim")


def _events(instance: Instance) -> Iterator[tuple[str, str]]:
    """READ and WRITE, each with its word, in order; LEFT for words that were never read."""
    source, read = instance.source.split(), 0
    for word, delay in zip(instance.prediction.split(), instance.delays, strict=True):
        yield from (("READ", name) for name in source[read:delay])
        yield "WRITE", word
        read = max(read, delay)
    yield from (("LEFT", name) for name in source[read:])


def _lanes(instance: Instance, console_width: int) -> Iterator[Text]:
    """Two lines, READ above WRITE, as often as the console's width asks for."""
    lanes = {"READ": "", "WRITE": ""}
    room = max(console_width - len("WRITE  "), 8)
    for kind, word in [*_events(instance), ("END", " " * room)]:
        shown = f"({word})" if kind == "LEFT" else word
        size = min(cell_len(shown), room)
        if cell_len(lanes["READ"]) + size > room:
            yield Text(f"READ  {lanes['READ'].rstrip()}", style="blue", no_wrap=True)
            yield Text(f"WRITE {lanes['WRITE'].rstrip()}", style="bold", no_wrap=True)
            lanes = {"READ": "", "WRITE": ""}
        for name in lanes:
            here = (name == "WRITE") == (kind == "WRITE")
            lanes[name] += (set_cell_size(shown, size) if here else " " * size) + " "
