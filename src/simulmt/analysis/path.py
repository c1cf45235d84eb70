"""The read/write path of a decoded sentence, for the terminal."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from operator import itemgetter

from rich.cells import cell_len, set_cell_size
from rich.console import Group
from rich.text import Text

from simulmt.analysis.staircase import Staircase, word_staircase
from simulmt.decoding.instance import Instance

NOTHING = "(nothing was written)"


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
