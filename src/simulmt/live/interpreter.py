"""Translates what arrives on a stream: words while they come in, a line a sentence."""

from __future__ import annotations

import codecs
import json
import os
import re
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, TextIO

from simulmt.data.text import normalise
from simulmt.live.translator import LONGEST, Translator

END = "\n"
"""Stands among the words for the end of a sentence."""
_LONGEST_WORD = 1 << 16


def arriving(descriptor: int) -> Iterator[str]:
    """Words as soon as white space follows them, and `END` for each end of a line.

    White space is what `normalise` takes for it; a byte-order mark is skipped. Bytes that are no
    UTF-8 become the replacement character, and what goes on for 64 Ki characters without white
    space is a word. What is left when the stream ends is a line, too.
    """
    decoder = codecs.getincrementaldecoder("utf-8-sig")(errors="replace")
    rest, ended, open_line = "", False, False
    while not ended:
        chunk = os.read(descriptor, 1 << 16)
        ended = not chunk
        *complete, rest = re.split(r"([\s\u2581])", rest + decoder.decode(chunk, final=ended))
        if len(rest) > _LONGEST_WORD:
            complete, rest = [*complete, rest], ""
        for part in [*complete, rest] if ended else complete:
            if part:
                open_line = part != END
            if part == END or normalise(part):
                yield part
    if open_line:
        yield END


def parts_of(lines: Iterable[str]) -> Iterator[str]:
    """The same of lines that are there already, each of them normalised."""
    for line in lines:
        yield from line.split()
        yield END


def interpret(
    translator: Translator, parts: Iterable[str], told: Told, warn: Callable[[str], None]
) -> None:
    """Translate sentence after sentence; a line without a word is one in the translation, too.

    A sentence that grows too long is ended there, and another begun.

    Args:
        translator: takes the words in.
        parts: words, and `END` after each sentence.
        told: is told what happens, at once.
        warn: is told of sentences that were cut.
    """
    translator.reset()
    for part in parts:
        if part != END:
            told.read(part)
            told.wrote(translator.read(part))
            if not translator.full:
                continue
            warn(f"a sentence reached {LONGEST:,} subwords, the most there can be: ended here")
        if translator.words_read:
            told.wrote(translator.finish())
        told.ended()
        translator.reset()


class Told(ABC):
    """Is told of every word that was read or written."""

    @abstractmethod
    def read(self, word: str) -> None:
        """A source word has been read."""

    @abstractmethod
    def wrote(self, words: Sequence[str]) -> None:
        """Words of the translation have been decided."""

    @abstractmethod
    def ended(self) -> None:
        """The sentence has ended."""


class Plain(Told):
    """The translation as text, a line a sentence, flushed at every word."""

    def __init__(self, output: TextIO) -> None:
        self.output = output
        self._before = ""

    def read(self, word: str) -> None:
        """Nothing is said of it."""

    def wrote(self, words: Sequence[str]) -> None:
        """Add the words to the line."""
        for word in words:
            self.output.write(self._before + word)
            self._before = " "
        self.output.flush()

    def ended(self) -> None:
        """End the line."""
        self.output.write("\n")
        self.output.flush()
        self._before = ""


class Actions(Told):
    """A JSON line a word: sentence (from 1), READ or WRITE, the word, seconds since the start."""

    def __init__(self, output: TextIO) -> None:
        self.output = output
        self._started = time.perf_counter()
        self._sentence = 1
        self._words_read = 0

    def read(self, word: str) -> None:
        """One more source word."""
        self._words_read += 1
        self._say(action="READ", word=word)

    def wrote(self, words: Sequence[str]) -> None:
        """Each word, and how many source words had been read by then."""
        for word in words:
            self._say(action="WRITE", word=word, read=self._words_read)

    def ended(self) -> None:
        """Count the next sentence."""
        self._say(action="END")
        self._sentence += 1
        self._words_read = 0

    def _say(self, **event: Any) -> None:
        seconds = round(time.perf_counter() - self._started, 6)
        event = {"sentence": self._sentence, **event, "seconds": seconds}
        self.output.write(json.dumps(event, ensure_ascii=False) + "\n")
        self.output.flush()
