"""The read/write path of a decoded sentence: in words, for the terminal and as a picture."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from operator import itemgetter
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from rich.cells import cell_len, set_cell_size
from rich.console import Group
from rich.text import Text

from simulmt.analysis.panel import NOTHING, Handles, Panel, circle_key, draw_circles, draw_sheet
from simulmt.decoding.instance import Instance, word_positions

_PATH, _HEAD = "#1f4e79", "#d95f02"


@dataclass(frozen=True)
class Staircase:
    """One decoded sentence, source units by target units.

    Attributes:
        columns: The source units.
        rows: The target units.
        delays: For each target unit, the number of source units that had been read.
        heads: For each target unit, the number of heads that stood at each column, from 1.
    """

    columns: Sequence[str]
    rows: Sequence[str]
    delays: Sequence[int]
    heads: Sequence[Counter[int]]

    def steps(self) -> Iterator[tuple[str, int, int, Counter[int]]]:
        """Return each target unit with the delay before it, its own delay, and its heads."""
        return zip(self.rows, [0, *self.delays], self.delays, self.heads, strict=False)

    def most_heads(self) -> int:
        """Return the largest number of heads in a cell."""
        return max((n for row in self.heads for n in row.values()), default=0)


def word_staircase(instance: Instance) -> Staircase:
    """Return the grid of a sentence in words."""
    heads = word_positions(instance)
    return _staircase(instance.source.split(), instance.prediction.split(), instance.delays, heads)


def interleaved(instance: Instance) -> str:
    """Return the path in one line: `der alte Bauer | the old farmer | ging heim | went home`."""
    texts = [] if instance.delays[:1] != (0,) else [""]
    for kind, run in groupby(_events(instance), key=itemgetter(0)):
        words = " ".join(word for _, word in run)
        texts.append(f"(not read: {words})" if kind == "LEFT" else words)
    return " | ".join(texts)


def render_path(instance: Instance, console_width: int) -> Group:
    """Return the path as a grid for the terminal: a row per written word, a column per source word.

    A sentence that is too wide for the console becomes two lanes along time, READ above WRITE.

    Args:
        instance: The decoded sentence.
        console_width: The width of the console in columns.
    """
    grid = word_staircase(instance)
    lines = [*_grid_lines(grid)]
    if max(line.cell_len for line in lines) > console_width:
        lines = [*_lanes(instance, console_width)]
    elif instance.delays:
        lines.append(_key(grid))
    if not instance.delays:
        lines.append(Text(NOTHING, style="italic"))
    title = Text(f"sentence {instance.index + 1}", style="bold")
    return Group(title, *lines, Text.assemble(("reference: ", "dim"), instance.reference))


def draw_path(instance: Instance, path: Path) -> None:
    """Draw the path of a sentence.

    Source on the x axis, target from top to bottom, in subwords where the instance has them. The
    line steps right with every read and down with every write. The area of a circle is the number
    of heads that had stopped at its place.

    Args:
        instance: The sentence.
        path: The picture's path; the suffix (.png, .svg, .pdf) says which kind.
    """
    grid = _piece_staircase(instance)
    title, mark = f"sentence {instance.index + 1}", partial(_mark, grid)
    panel = Panel(title, grid.columns, grid.rows, grid.delays, mark)
    draw_sheet([[panel]], path, partial(_picture_key, grid.most_heads()), smallest=0.15)


def _piece_staircase(instance: Instance) -> Staircase:
    """Return the grid of a sentence in subwords; in words if the instance has no subwords."""
    rows, delays = instance.target_pieces, instance.subword_delays
    if not instance.source_pieces or len(rows) != len(delays):
        return word_staircase(instance)
    return _staircase(instance.source_pieces, rows, delays, instance.positions)


def _staircase(
    columns: Sequence[str], rows: Sequence[str], delays: Sequence[int],
    positions: Sequence[Sequence[int]],
) -> Staircase:  # fmt: skip
    """Return the grid, with a column for EOS only if a head stood at EOS, which was then read.

    A head that has run off the end stands nowhere.
    """
    n = len(columns)
    heads = [positions[i] if i < len(positions) else () for i in range(len(rows))]
    if any(position > n for row in heads for position in row):
        columns = [*columns, "</s>"]
    reach = [max((p for p in row if p > n), default=0) for row in heads]
    delays = [max(min(d, n), min(r, n + 1)) for d, r in zip(delays, reach, strict=True)]
    counted = [Counter(min(p, n + 1) for p in row if p) for row in heads]
    return Staircase(columns, rows, delays, counted)


def _grid_lines(grid: Staircase) -> Iterator[Text]:
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


def _key(grid: Staircase) -> Text:
    key = "█ read for this word   ░ read before   · not read"
    heads = "   digit: heads that stopped there (+: ten or more)"
    return Text(key + heads * (grid.most_heads() > 0), style="dim")


def _events(instance: Instance) -> Iterator[tuple[str, str]]:
    """Yield READ or WRITE and the word, in the order of time; LEFT for words never read."""
    source, read = instance.source.split(), 0
    for word, delay in zip(instance.prediction.split(), instance.delays, strict=True):
        yield from (("READ", name) for name in source[read:delay])
        yield "WRITE", word
        read = max(read, delay)
    yield from (("LEFT", name) for name in source[read:])


def _lanes(instance: Instance, console_width: int) -> Iterator[Text]:
    """Yield pairs of lines, READ above WRITE, each pair as wide as the console."""
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


def _mark(grid: Staircase, axes: Axes) -> None:
    read, written = np.repeat([0, *grid.delays], 2)[1:], np.arange(2 * len(grid.rows) + 1) // 2
    axes.plot(read, written, color=_PATH, linewidth=2, clip_on=False)
    heads = [(i, j - 1, n) for i, row in enumerate(grid.heads) for j, n in row.items()]
    if heads:
        cells, counts = np.split(np.array(heads), [2], axis=1)
        shares = counts[:, 0] / grid.most_heads()
        draw_circles(axes, cells, shares, facecolors=_HEAD, edgecolors="white", linewidths=0.5)


def _picture_key(most: int, cell: float) -> Handles:
    counts = sorted({1, most}) if most else []
    circles = [
        circle_key(cell, n / most, _HEAD, "1 head" if n == 1 else f"{n} heads") for n in counts
    ]
    return [Line2D([], [], color=_PATH, linewidth=2, label="path"), *circles]
