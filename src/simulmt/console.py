"""Output of the programs on the terminal, by the first process of a run alone."""

from collections.abc import Iterable
from contextlib import AbstractContextManager, nullcontext
from typing import Any, TypeVar

from rich.console import Console
from rich.progress import track

from simulmt.processes import is_first_process

T = TypeVar("T")
console = Console(highlight=False)
if not console.is_terminal:  # a file or a pipe has room for wide tables
    console.width = max(console.width, 140)


def say(text: str) -> None:
    """Print a line."""
    if is_first_process():
        console.print(text, markup=False, soft_wrap=True)


def watch(work: list[T], what: str = "decoding", on: Console = console) -> Iterable[T]:
    """Return the items of `work`, with a progress bar if `on` is a terminal."""
    shown = is_first_process() and on.is_terminal
    return track(work, what, console=on, disable=not shown, transient=True)


def busy(what: str) -> AbstractContextManager[Any]:
    """Return a context that shows a spinner on a terminal."""
    if is_first_process() and console.is_terminal:
        return console.status(what)
    return nullcontext()
