"""The text stage of a cascade: reads the lines of a speech recogniser, writes lines of translation.

The lines are JSON, in the format of SimulStreaming (Macháček and Polák 2025), extended by the
recogniser's `unconfirmed_text`. A copy of the translator makes a draft from this text, so no
confirmed word depends on it.
"""

import copy
import json
import re
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass
from typing import Literal, TextIO

from pydantic import FiniteFloat, TypeAdapter

from simulmt.data.text import decoded, normalise
from simulmt.errors import UserError
from simulmt.live.interpreter import END, cut, words_of
from simulmt.live.stream import StreamTranslator
from simulmt.live.together import LiveTranslator
from simulmt.live.translator import LONGEST
from simulmt.options import parse_json


@dataclass(frozen=True)
class Piece:
    """A piece of recognised text, such as a word; `end` is its time in the recording in seconds."""

    text: str
    end: FiniteFloat | None = None


@dataclass(frozen=True)
class StageLine:
    """A line that a stage of a cascade writes: the recogniser, or a translator after it.

    Attributes:
        emission_time: When it was written, in seconds.
        text: What is certain now, beyond earlier lines; in a translation, each word has a space in
            front (characters have none).
        end: The end of this text in the recording, in seconds; in a translation, that of the last
            source word that was read (None before the first).
        words: The text in pieces with their times; if empty, the text is one piece.
        unconfirmed_text: What may follow; later lines may say something else.
        is_final: True if the speaker pauses, which ends the sentence.
        status: A line that is INCOMPLETE has no effect, since a COMPLETE one repeats its text.
    """

    emission_time: FiniteFloat
    text: str = ""
    end: FiniteFloat | None = None
    words: tuple[Piece, ...] = ()
    unconfirmed_text: str = ""
    is_final: bool = False
    status: Literal["INCOMPLETE", "COMPLETE"] = "COMPLETE"


_LINE = TypeAdapter(StageLine)


class Cascade:
    """Translates what a recogniser writes, line by line.

    If the first piece of the input, or after a final line, begins with a space, as Whisper's do,
    pieces are joined as they are: a word is complete once white space follows. Otherwise each piece
    ends with a complete word. If characters are words, each is complete.

    Args:
        reader: translates the words.
        warn: called with a warning for each sentence that is too long.
        computation_aware: True to add the computing time to the emission times.
    """

    def __init__(
        self, reader: LiveTranslator, warn: Callable[[str], None], computation_aware: bool = False
    ) -> None:
        self._reader, self._warn, self._aware = reader, warn, computation_aware
        self._characters = reader.subwords.writing.source
        self._end: float | None = None
        self._free = 0.0
        self._spaced: bool | None = None
        self._begin()

    def _begin(self) -> None:
        self._reader.reset()
        self._open, self._last = False, Piece("")

    def translate(self, heard: StageLine) -> StageLine:
        """Read a line; return what is decided now, and a draft of what may follow."""
        started, emitted = time.perf_counter(), heard.emission_time
        pieces = heard.words or (Piece(heard.text, heard.end),)
        words = [word for piece in pieces for word in self._take(piece)]
        words += self._finish() if heard.is_final else ()
        self._spaced = None if heard.is_final else self._spaced
        drafted = [] if heard.is_final else self._draft(heard.unconfirmed_text)
        if self._aware:
            emitted = self._free = max(emitted, self._free) + time.perf_counter() - started
        gap = "" if self._reader.subwords.writing.target else " "
        text, draft = "".join(f"{gap}{word}" for word in words), gap.join(drafted)
        return StageLine(emitted, text, self._end, (), draft, heard.is_final)

    def _take(self, piece: Piece) -> Iterator[str]:
        """Read the words that a piece of text completes; yield the words that are decided."""
        if self._characters:
            for sign in normalise(piece.text).replace(" ", ""):
                self._last = Piece(sign, piece.end)
                yield from self._read()
            return
        if self._spaced is None and piece.text:
            self._spaced = piece.text[0].isspace()
        text = piece.text if self._spaced else f"{piece.text} "
        for part in re.findall(r"[\s\u2581]|([^\s\u2581]+)", text):
            if part:  # not white space
                self._last = Piece(self._last.text + part, piece.end)
            else:
                yield from self._read()

    def _read(self) -> Iterator[str]:
        """Read the last word, which is complete."""
        word, self._last = self._last, Piece("")
        self._end = self._end if word.end is None else word.end
        for part in cut(word.text) if word.text else ():
            self._open = True
            yield from self._reader.read(part)
            if self._reader.full:
                self._warn(f"warning: a sentence has {LONGEST:,} subwords, the limit: ended here")
                yield from self._finish()

    def _finish(self) -> Iterator[str]:
        """End what is open, and forget the context."""
        yield from self._read()
        if self._open:
            yield from self._reader.read(None)
        self._begin()

    def _draft(self, tail: str) -> list[str]:
        """The words that would follow after the last word and a tail, both of which may change."""
        words = [
            word
            for word in words_of([f"{self._last.text} {tail}"], self._characters)
            if word != END
        ]
        draft = copied(self._reader) if words else self._reader
        return [new for word in words for new in draft.read(word)] + draft.undecided


def copied(reader: LiveTranslator) -> LiveTranslator:
    """Return a translator at the same point of the same text, with the same model."""
    sentence = reader.stream.stream if isinstance(reader, StreamTranslator) else reader.stream
    shared = reader.model, sentence.model, reader.subwords
    return copy.deepcopy(reader, {id(part): part for part in shared})


def translate_lines(
    cascade: Cascade, lines: Iterable[bytes], output: TextIO, warn: Callable[[str], None]
) -> None:
    """Write a line for each line of a recogniser, flushed; the end of the input is final.

    Args:
        cascade: translates the lines.
        lines: the lines; those that are not valid are skipped.
        output: receives the translation.
        warn: called with a warning for each line that is skipped.
    """
    last = StageLine(0, is_final=True)
    for number, raw in enumerate(lines, 1):
        try:
            heard = parse_json(_LINE, decoded(raw, "input", number, errors="replace"))
        except UserError as fault:
            warn(f"warning: line {number} is skipped: {fault}")
            continue
        if heard.status == "COMPLETE":
            last = heard
            _write(cascade.translate(heard), output)
    if not last.is_final:
        _write(cascade.translate(StageLine(last.emission_time, is_final=True)), output)


def _write(line: StageLine, output: TextIO) -> None:
    fields = asdict(line)
    del fields["words"]  # a translation has no times of words
    print(json.dumps(fields), file=output, flush=True)
