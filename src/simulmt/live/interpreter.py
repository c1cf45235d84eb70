"""Translates a stream word by word; each line is a sentence."""

import codecs
import json
import os
import re
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Literal, NamedTuple, TextIO

from simulmt.data.text import normalise
from simulmt.decoding.writing import as_written
from simulmt.live.translator import LONGEST, Translator

END = "\n"
"""The end of a sentence, among the words."""
LONGEST_WORD = 1000  # characters; more take seconds before anything is written


def arriving(descriptor: int) -> Iterator[str]:
    """Yield the text of a file descriptor as it arrives.

    A byte-order mark is skipped, and bytes that are not UTF-8 become the replacement character.
    """
    decoder = codecs.getincrementaldecoder("utf-8-sig")(errors="replace")
    while chunk := os.read(descriptor, 1 << 16):
        yield decoder.decode(chunk)
    yield decoder.decode(b"", final=True)


def words_of(text: Iterable[str], characters: bool = False) -> Iterator[str]:
    """Yield each word as soon as white space follows it, and `END` at the end of each line.

    White space is as in `normalise`. A word ends after 1,000 characters at the latest. The last
    line needs no line end.

    Args:
        text: the text, cut anywhere.
        characters: True if each character is a word, which is yielded as soon as it arrives.
    """
    rest, open_line = "", False
    for piece in text:
        parts = re.split(r"([\s\u2581])", rest + piece)
        if characters:
            complete = [c for part in parts for c in (part if part == END else normalise(part))]
        else:
            *complete, rest = [word for part in parts for word in cut(part)]
        for part in complete:
            if part:
                open_line = part != END
            if part == END or normalise(part):
                yield part
    if rest:
        yield rest
    if rest or open_line:
        yield END


def cut(word: str, longest: int = LONGEST_WORD) -> list[str]:
    """Return a word in pieces of at most `longest` characters; an empty text as one empty word."""
    return [word[place : place + longest] for place in range(0, max(len(word), 1), longest)]


class Event(NamedTuple):
    """A word that is read or written, a translation that is shown, or the end of a sentence."""

    action: Literal["READ", "WRITE", "SHOW", "END"]
    sentence: int
    """The number of the sentence, from 1."""
    word: str = ""
    """The word; after SHOW all words that are shown, which replace those shown before."""
    read: int = 0
    """The number of source words read, of the sentence; in a stream, of the whole stream. After
    WRITE of a sentence, when the word is known to be complete; in a stream, its delay, which may be
    less."""
    length: int = 0
    """After END, the number of source words of the sentence."""
    heads: tuple[int, ...] = ()
    """After WRITE in a stream, the source word at which each head stood, of the whole stream."""


def interpret(
    translator: Translator, words: Iterable[str], warn: Callable[[str], None]
) -> Iterator[Event]:
    """Translate sentence after sentence, and yield each event at once.

    A line without words has an empty translation. A sentence that grows too long is ended, and its
    remaining words begin another.

    Args:
        translator: reads the words.
        words: source words, and `END` after each sentence.
        warn: called with a warning for each sentence that is cut.
    """
    translator.reset()
    sentence, read = 1, 0
    for word in words:
        if word == END or translator.full:
            if word != END:
                why = f"has reached the limit of {LONGEST:,} subwords: ended here"
                warn(f"warning: a sentence {why}")
            for written in translator.finish() if translator.words_read else ():
                yield Event("WRITE", sentence, written, read)
            yield Event("END", sentence, read=read, length=read)
            translator.reset()
            sentence, read = sentence + 1, 0
        if word != END:
            read += 1
            yield Event("READ", sentence, word, read)
            for written in translator.read(word):
                yield Event("WRITE", sentence, written, read)
            if translator.revises:
                shown = as_written(translator.shown, translator.subwords.writing.target)
                yield Event("SHOW", sentence, shown, read)


def print_translation(events: Iterable[Event], output: TextIO, characters: bool = False) -> None:
    """Print the translation as text, a line for each sentence, flushed at every word.

    Args:
        events: what happens.
        output: receives the text.
        characters: True if each character is a word, and nothing separates words.
    """
    before = ""
    for event in events:
        if event.action == "END":
            print(file=output, flush=True)
            before = ""
        elif event.action == "WRITE":
            print(before + event.word, end="", file=output, flush=True)
            before = "" if characters else " "


def print_events(events: Iterable[Event], output: TextIO) -> None:
    """Print each event as a line of JSON, with the seconds since the start."""
    started = time.perf_counter()
    for event in events:
        fields: dict[str, object] = {"sentence": event.sentence, "action": event.action}
        if event.action != "END":
            fields["word"] = event.word
        if event.action != "READ":
            fields["read"] = event.read
        if event.action == "END":
            fields["length"] = event.length
        fields["seconds"] = round(time.perf_counter() - started, 6)
        print(json.dumps(fields, ensure_ascii=False), file=output, flush=True)
