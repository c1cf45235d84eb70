"""Input at a terminal: each word is translated as soon as it is typed, and both sides are shown.

Terminals buffer their input by lines; here the buffer is switched off.
"""

import re
import signal
import termios
import tty
import unicodedata
from collections.abc import Callable, Generator

from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

from simulmt.decoding.writing import WORDS, Writing, as_written
from simulmt.live.interpreter import Event, arriving
from simulmt.system.ending import unwind

_ESCAPE = re.compile(r"\x1b(\[[0-?]*[ -/]*[@-~]|O.|.)?")  # such as an arrow key
_ERASE, _ERASE_WORD, _FINISHED = "\x7f\b", "\x15\x17", "\x04"


def typed(
    descriptor: int, show: Callable[[str], None], characters: bool = False
) -> Generator[str, None, None]:
    """Yield the text that is typed: each word with the white space that follows it.

    Until the input ends, the terminal's line buffer and its own echo are off; Ctrl-C interrupts.
    A signal that ends the process raises SystemExit, so that the terminal is as before.
    Backspace deletes letters of the word that is being typed, and no earlier word. Ctrl-D ends the
    input. Other control characters are ignored.

    Args:
        descriptor: file descriptor of the terminal.
        show: called with the word that is being typed, after each letter.
        characters: True if each character is a word; it is yielded as soon as it is typed.
    """
    word, before = "", termios.tcgetattr(descriptor)
    ending = (signal.SIGTERM, signal.SIGHUP)
    handlers = {number: signal.signal(number, unwind) for number in ending}
    try:
        tty.setcbreak(descriptor, termios.TCSANOW)  # no buffer, no echo; keeps pending input
        for text in arriving(descriptor):
            for letter in _ESCAPE.sub("", text):
                if letter == _FINISHED:
                    yield word
                    return
                if letter in "\r\n" or (word and letter.isspace()):
                    yield word + ("\n" if letter == "\r" else letter)
                word = with_key(word, letter)
                if characters and word:
                    yield word
                    word = ""
                show(word)
    finally:
        termios.tcsetattr(descriptor, termios.TCSANOW, before)
        for number, handler in handlers.items():
            signal.signal(number, handler)


def with_key(word: str, letter: str) -> str:
    """Return the word after one more key."""
    if letter in _ERASE_WORD or letter.isspace():
        return ""
    if letter in _ERASE:
        return word[:-1]
    return word if unicodedata.category(letter) == "Cc" else word + letter


class Screen:
    """Two lines for each sentence: the source as it is typed, and below it the translation.

    Args:
        console: the terminal.
        writing: what a word is, on either side.
    """

    _lines: Live

    def __init__(self, console: Console, writing: Writing = WORDS) -> None:
        self._console, self._writing = console, writing
        self._begin([])

    def close(self) -> None:
        """Stop drawing; an empty pair of lines is removed."""
        self._lines.transient = not (self._read or self._typing)
        self._lines.stop()

    def typing(self, word: str) -> None:
        """Show the word that is being typed."""
        self._typing = word
        self._draw()

    def show(self, event: Event) -> None:
        """Show a word that was read or written; after a sentence, begin the next two lines.

        Words that were read beyond the end of a sentence begin the next one.
        """
        if event.action == "END":
            further = self._read[event.length :]
            del self._read[event.length :]
            self._draw()
            self._lines.stop()
            self._begin(further)
            return
        if event.action == "READ":
            self._read.append(event.word)
            self._typing = ""
        elif event.action == "WRITE":  # it is final now
            self._written.append(event.word)
            self._shown = ""
        else:
            self._shown = event.word
        self._draw()

    def _begin(self, read: list[str]) -> None:
        self._read, self._written = read, list[str]()
        self._typing = self._shown = ""
        self._lines = Live(console=self._console, auto_refresh=False, vertical_overflow="visible")
        self._lines.start()
        self._draw()

    def _draw(self) -> None:
        source = Text(f"> {as_written([*self._read, self._typing], self._writing.source)}")
        written = as_written(self._written, self._writing.target)
        translation = Text(f"  {written}", style="bold green")
        translation.append(self._shown, style="not bold yellow")  # may be taken back
        self._lines.update(Group(source, translation), refresh=True)
