"""The read/write path of a decoded sentence: in words, for the terminal and as a picture."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import accumulate, groupby
from operator import itemgetter
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from rich.cells import cell_len, set_cell_size
from rich.console import Group
from rich.text import Text
from sacrebleu.metrics.chrf import CHRF

from simulmt.analysis.figures import sheet
from simulmt.decoding.instance import Instance, texts_of
from simulmt.decoding.writing import as_written
from simulmt.scoring.score import sentence_dals

MOST = 30
"""The most rows, and the most columns, that are shown of a sentence."""
_TEXT = 1000  # the most columns of a running text
_SHORTEST = 4  # source words of a sentence that shows a policy
_PATH = "#1f4e79"


@dataclass(frozen=True)
class Staircase:
    """The beginning of a decoded sentence, source words by target words.

    Attributes:
        columns: The first source words.
        rows: The first target words.
        delays: For each target word, the number of columns that had been read.
        heads: For each target word, the number of heads that had stopped at each column, from 1.
        left_out: The number of words that are neither a column nor a row.
    """

    columns: Sequence[str]
    rows: Sequence[str]
    delays: Sequence[int]
    heads: Sequence[Counter[int]]
    left_out: int

    def steps(self) -> Iterator[tuple[str, int, int]]:
        """Return each target word with the delay before it and its own delay."""
        return zip(self.rows, [0, *self.delays], self.delays, strict=False)


def word_staircase(instance: Instance) -> Staircase:
    """Return the grid of a sentence, up to `MOST` rows and columns.

    EOS has a column only if a head had stopped there.
    """
    source, target = instance.source.split(), instance.prediction.split()
    n, stops = len(source), instance.word_positions or [()] * len(target)
    at_end = [n + 1 in heads for heads in stops]
    columns = [*source, *["</s>"] * any(at_end)][:MOST]
    read = [n + 1 if end else min(d, n) for d, end in zip(instance.delays, at_end, strict=True)]
    return Staircase(
        columns=[*map(sheet.short, columns)],
        rows=[*map(sheet.short, target[:MOST])],
        delays=[min(delay, len(columns)) for delay in read[:MOST]],
        heads=[*map(Counter, stops[:MOST])],
        left_out=max(n - MOST, 0) + max(len(target) - MOST, 0),
    )


def interleaved(instance: Instance) -> str:
    """Return the path in one line: `der alte Bauer | the old farmer | ging heim | went home`.

    A line that is far too long is truncated.
    """
    source, read, sides = instance.source.split(), 0, instance.writing
    texts: list[str] = []
    written = zip(accumulate(instance.delays, max), instance.prediction.split(), strict=True)
    for delay, steps in groupby(written, key=itemgetter(0)):
        new, words = source[read:delay], (word for _, word in steps)
        texts += [as_written(new, sides.source), as_written(words, sides.target)]
        read = delay
    if left := source[read:]:
        texts.append(f"(not read: {as_written(left, sides.source)})")
    return sheet.short(" | ".join(texts), _TEXT)


def render_path(instance: Instance, console_width: int) -> Group:
    """Return the path as a grid for the terminal: a row per written word, a column per source word.

    A sentence that is too wide for the console becomes one text, source and target in turns. Of a
    long sentence only the beginning is shown.

    Args:
        instance: The decoded sentence.
        console_width: The width of the console in columns.
    """
    grid = word_staircase(instance)
    lines = [*_grid_lines(grid)]
    if max(line.cell_len for line in lines) > console_width:
        lines = [Text(f"source | target, alternating: {interleaved(instance)}")]
    else:
        if instance.delays:
            key = "█ read for this word   ░ read before   · not read"
            heads = "   digit: heads that stopped there (+: ten or more)"
            lines.append(Text(key + heads * bool(instance.word_positions), style="dim"))
        if grid.left_out:
            lines.append(Text(sheet.more(grid.left_out, "word")))
    if not instance.delays:
        lines.append(Text(sheet.NOTHING, style="italic"))
    title = Text(f"sentence {instance.index + 1}", style="bold")
    _, text, _ = texts_of(instance)
    reference = Text.assemble(("reference: ", "dim"), sheet.short(text, _TEXT))
    return Group(title, *lines, reference)


def typical_places(instances: Sequence[Instance]) -> list[int]:
    """Return the places of the sentences, the most typical sentence first.

    A typical sentence is close to the corpus's medians of chrF, DAL, source words and written
    words. Each distance is divided by the mean distance from that median. If at least half of the
    sentences show the policy at work, these come first. Equally typical sentences keep their order.
    """
    chrf = CHRF()
    qualities = [chrf.sentence_score(i.prediction, [i.reference]).score for i in instances]
    lengths = [(i.source_length, i.prediction_length) for i in instances]
    traits = np.column_stack([qualities, sentence_dals(instances), lengths])  # (N, 4)
    distances = np.abs(traits - np.median(traits, axis=0))
    scales = distances.mean(axis=0)
    distances /= np.where(scales > 0, scales, 1)
    # long enough, and with a read between two writes
    shown = np.array([i.source_length >= _SHORTEST and len({*i.delays}) > 1 for i in instances])
    later = ~shown if 2 * shown.sum() >= len(shown) else np.zeros_like(shown)
    return [int(place) for place in np.lexsort((distances.sum(axis=1), later))]


def draw_path(instance: Instance, path: Path) -> None:
    """Draw the path of a sentence, of a long one the beginning.

    Source words on the x axis, target words from top to bottom. The line steps right with every
    read and down with every write.

    Args:
        instance: The sentence.
        path: The picture's path; the suffix (.png, .svg, .pdf) selects the format.
    """
    grid = word_staircase(instance)
    rest = f" {sheet.more(grid.left_out, 'word')}" if grid.left_out else ""
    title = f"sentence {instance.index + 1}{rest}"
    picture = sheet.Panel(title, grid.columns, grid.rows, grid.delays, partial(_mark, grid))
    sheet.draw_sheet([[picture]], path, _key, smallest=0.15)


def _grid_lines(grid: Staircase) -> Iterator[Text]:
    margin = max(map(cell_len, grid.rows), default=0)
    yield Text(" " * (margin + 5) + " ".join(grid.columns), style="bold", no_wrap=True)
    for (name, before, delay), heads in zip(grid.steps(), grid.heads, strict=True):
        line = Text(f"{delay:3} {set_cell_size(name, margin)}", no_wrap=True)
        for j, column in enumerate(grid.columns, start=1):
            width = max(cell_len(column), 1)
            cell = "·".center(width) if j > delay else ("░" if j <= before else "█") * width
            middle = (width - 1) // 2
            line.append(f" {cell[:middle]}", "blue")
            mark = str(heads[j]) if heads[j] < 10 else "+"
            line.append(*((mark, "bold yellow") if heads[j] else (cell[middle], "blue")))
            line.append(cell[middle + 1 :], "blue")
        yield line


def _mark(grid: Staircase, axes: Axes) -> None:
    read, written = np.repeat([0, *grid.delays], 2)[1:], np.arange(2 * len(grid.rows) + 1) // 2
    axes.plot(read, written, color=_PATH, linewidth=2, clip_on=False)


def _key(_: float) -> sheet.Handles:
    return [Line2D([], [], color=_PATH, linewidth=2, label="path")]
