"""What arrives on a stream is cut into words and sentences, and translated while it comes."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from typing import TextIO

import pytest

from simulmt.live.interpreter import (
    END,
    arriving,
    interpret,
    print_events,
    print_translation,
    words_of,
)
from simulmt.live.translator import Translator


def pieces(*chunks: bytes) -> list[str]:
    """What comes out of a pipe into which the chunks were written one after the other."""
    out, into = os.pipe()
    for chunk in chunks:
        os.write(into, chunk)
    os.close(into)
    try:
        return [*words_of(arriving(out))]
    finally:
        os.close(out)


@pytest.mark.parametrize(
    ("chunks", "expected"),
    [
        ([], []),
        ([b"ein Wort\n"], ["ein", "Wort", END]),
        ([b"ein Wort"], ["ein", "Wort", END]),
        ([b"\n\n"], [END, END]),
        ([b" a\t b \r\nc\n"], ["a", "b", END, "c", END]),
        ([b"Gr", b"\xc3", b"\xbc\xc3\x9fe\n"], ["Grüße", END]),
        ([b"\xff x\n"], ["\ufffd", "x", END]),
        ([b"x \xc3"], ["x", "\ufffd", END]),
        ([b"  \n "], [END, END]),
        ([b"\xef\xbb", b"\xbfx \xef\xbb\xbf\n"], ["x", "\ufeff", END]),  # only the first is a mark
        (["\u2581\na\u2581b\n".encode()], [END, "a", "b", END]),
    ],
)
def test_words_and_ends_of_lines(chunks, expected):
    assert pieces(*chunks) == expected


def test_lines_give_the_same_words():
    assert [*words_of(["ein Wort\n", "\n", "x\n", " "])] == pieces(b"ein Wort\n\nx\n ")


def test_no_word_is_endless(tmp_path):
    path = tmp_path / "x"
    path.write_bytes(b"x" * (3 << 16) + b" y")
    with path.open("rb") as file:
        *words, last, end = words_of(arriving(file.fileno()))
    assert "".join(words) == "x" * (3 << 16)
    assert max(map(len, words)) == 1000
    assert (last, end) == ("y", END)


def test_a_word_is_there_before_the_line_ends():
    out, into = os.pipe()
    words = words_of(arriving(out))
    os.write(into, b"der Ma")
    assert next(words) == "der"
    os.write(into, b"nn ")
    assert next(words) == "Mann"
    os.write(into, b"\n")
    assert next(words) == END
    os.close(into)
    assert [*words] == []
    os.close(out)


class Echo(Translator):
    """Writes each word in capitals once the next one is there; four words are a full sentence."""

    def __init__(self) -> None:
        self.policy = None
        self.reset()

    def reset(self) -> None:
        self.words_read: list[str] = []

    def read(self, word: str) -> list[str]:
        self.words_read.append(word)
        return [word.upper() for word in self.words_read[-2:-1]]

    @property
    def full(self) -> bool:
        return len(self.words_read) == 4

    def finish(self) -> list[str]:
        return [self.words_read[-1].upper()]


@pytest.fixture
def output(tmp_path) -> Iterator[TextIO]:
    with (tmp_path / "output").open("w+", encoding="utf-8") as file:
        yield file


def text_of(output: TextIO) -> str:
    output.seek(0)
    return output.read()


def test_the_translation_is_a_line_for_a_line(output):
    print_translation(interpret(Echo(), ["a", "b", END, END, "c", END], pytest.fail), output)
    assert text_of(output) == "A B\n\nC\n"


def test_an_endless_sentence_is_cut(output):
    warnings = []
    print_translation(interpret(Echo(), [*"abcdefghi", END], warnings.append), output)
    assert text_of(output) == "A B C D\nE F G H\nI\n"
    assert len(warnings) == 2


def test_actions_tell_every_word(output):
    print_events(interpret(Echo(), ["a", "b", END, "c", END], pytest.fail), output)
    events = [json.loads(line) for line in text_of(output).splitlines()]
    seconds = [event.pop("seconds") for event in events]
    assert seconds == sorted(seconds)
    assert events == [
        {"sentence": 1, "action": "READ", "word": "a"},
        {"sentence": 1, "action": "READ", "word": "b"},
        {"sentence": 1, "action": "WRITE", "word": "A", "read": 2},
        {"sentence": 1, "action": "WRITE", "word": "B", "read": 2},
        {"sentence": 1, "action": "END"},
        {"sentence": 2, "action": "READ", "word": "c"},
        {"sentence": 2, "action": "WRITE", "word": "C", "read": 1},
        {"sentence": 2, "action": "END"},
    ]
