"""Output on the terminal, which only the first process of a run prints."""

import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from typing import TypeVar

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from simulmt.system.ending import is_first

T = TypeVar("T")
EVERY = 60.0
"""Seconds between two lines about work without a progress bar."""
console = Console(highlight=False, quiet=not is_first())
if not console.is_terminal:  # a file or a pipe has room for wide tables
    console.width = max(console.width, 140)


def say(text: str) -> None:
    """Print a line."""
    console.print(text, markup=False, soft_wrap=True)


def note(text: str) -> None:
    """Print a line on stderr, apart from the output, which may go into a pipe."""
    if is_first():
        print(text, file=sys.stderr)


@cache
def warn(text: str) -> None:
    """Print a warning on stderr, the first time that a process gives it."""
    note(f"warning: {text}")


def watch(work: Sequence[T], what: str = "decoding", on: Console = console) -> Iterator[T]:
    """Yield the items of `work`, with a bar on a terminal; see `counted`."""
    return counted(work, what, lambda item: 1, len(work), "", on)


def counted(
    parts: Iterable[T],
    what: str,
    size: Callable[[T], int],
    total: int | None = None,
    unit: str = "pairs",
    on: Console = console,
) -> Iterator[T]:
    """Yield parts of some work, with a progress bar on a terminal, else a line on stderr a minute.

    Args:
        parts: the parts.
        what: the name of the work.
        size: returns the size of a part.
        total: the size of all parts; None if unknown.
        unit: what the sizes count.
        on: where the bar appears if it is a terminal.
    """
    counts, times = TextColumn(f"{{task.completed:,}} {unit}"), TimeElapsedColumn()
    columns = (TextColumn(what), BarColumn(), counts, times, TimeRemainingColumn())
    shown = on.is_interactive  # not a dumb terminal
    with Progress(*columns, console=on, disable=not shown, transient=True) as bar:
        task, done, last = bar.add_task(what, total=total), 0, time.monotonic()
        for part in parts:
            yield part
            done += size(part)
            bar.update(task, completed=done)
            if not shown and time.monotonic() - last > EVERY:
                last = time.monotonic()
                line = f"{what}: {done:,}{'' if total is None else f' of {total:,}'} {unit}"
                note(line.rstrip())
