"""A person at a terminal: words go off as soon as they are typed, the translation is shown below.

A terminal hands its input over a line at a time unless it is told otherwise; here it is.
"""

from __future__ import annotations

import codecs
import os
import re
import termios
import tty
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import TracebackType

from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

from simulmt.live.interpreter import END, Told

_ESCAPE = re.compile(r"\x1b(\[[0-?]*[ -/]*[@-~]|O.|.)?")  # an arrow key, say
_ERASE, _ERASE_WORD, _FINISHED = "\x7f\b", "\x15\x17", "\x04"


def typed(descriptor: int, show: Callable[[str], None]) -> Iterator[str]:
    """Words as they are typed at a terminal, and `END` for each Return.

    Backspace takes back letters of the word that is being typed, not words that have gone off;
    Ctrl-D ends the line and the input. Other control characters count for nothing.

    Args:
        descriptor: of the terminal.
        show: is told the word that is being typed, after each letter.
    """
    decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
    word, open_line = "", False
    with _letter_by_letter(descriptor):
        while chunk := os.read(descriptor, 1 << 10):
            for letter in _ESCAPE.sub("", decoder.decode(chunk)):
                goes_on = letter.isprintable() and letter != " "
                word = word + letter if goes_on else _corrected(word, letter)
                if letter.isspace() or letter == _FINISHED:
                    if word:
                        yield word
                    open_line, word = open_line or bool(word), ""
                    if letter in "\r\n" or (letter == _FINISHED and open_line):
                        open_line = False
                        yield END
                if letter == _FINISHED:
                    return
                show(word)


def _corrected(word: str, letter: str) -> str:
    """What a control character leaves of a word."""
    if letter in _ERASE_WORD:
        return ""
    return word[:-1] if letter in _ERASE else word


@contextmanager
def _letter_by_letter(descriptor: int) -> Iterator[None]:
    """The terminal without its line buffer and its own echo; Ctrl-C still interrupts."""
    before = termios.tcgetattr(descriptor)
    try:
        tty.setcbreak(descriptor, termios.TCSANOW)  # what was typed already is kept
        yield
    finally:
        termios.tcsetattr(descriptor, termios.TCSANOW, before)


class Screen(Told):
    """Two lines for each sentence: what is typed, and below it the translation.

    Args:
        console: the terminal; None for standard output.
    """

    def __init__(self, console: Console | None = None) -> None:
        self.console = console or Console(highlight=False)
        self._read: list[str] = []
        self._written: list[str] = []
        self._typing = ""

    def __enter__(self) -> Screen:
        self._begin()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._live.transient = not (self._read or self._typing)  # no empty lines are left behind
        self._live.stop()

    def typing(self, word: str) -> None:
        """Show the word that is being typed."""
        self._typing = word
        self._draw()

    def read(self, word: str) -> None:
        """The word has gone off."""
        self._typing = ""
        self._read.append(word)
        self._draw()

    def wrote(self, words: Sequence[str]) -> None:
        """Add to the translation."""
        self._written.extend(words)
        self._draw()

    def ended(self) -> None:
        """Leave the two lines standing and begin the next two."""
        self._live.stop()
        self._begin()

    def _begin(self) -> None:
        self._read, self._written, self._typing = [], [], ""
        self._live = Live(
            console=self.console, auto_refresh=False, vertical_overflow="visible", transient=False
        )
        self._live.start()
        self._draw()

    def _draw(self) -> None:
        source = " ".join([*self._read, self._typing])
        translation = " ".join(self._written)
        lines = Group(Text(f"> {source}"), Text(f"  {translation}", style="bold green"))
        self._live.update(lines, refresh=True)
