"""What arrives on a stream or is typed is cut into words, and translated while it comes."""

import io
import json
import os
import pty
import signal
import termios
import tty
from collections.abc import Iterator
from contextlib import closing
from threading import Timer
from typing import TextIO

import pytest
from rich.console import Console

from simulmt.live import keyboard
from simulmt.live.interpreter import (
    END,
    Event,
    arriving,
    interpret,
    print_events,
    print_translation,
    words_of,
)
from simulmt.live.keyboard import Screen, typed
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
        ([b" a\t b \r\n\nc\n"], ["a", "b", END, END, "c", END]),
        ([b"Gr", b"\xc3", b"\xbc\xc3\x9fe\n"], ["Grüße", END]),
        ([b"\xff x\n  \n "], ["\ufffd", "x", END, END, END]),
        ([b"x \xc3"], ["x", "\ufffd", END]),
        ([b"\xef\xbb", b"\xbfx \xef\xbb\xbf\n"], ["x", "\ufeff", END]),  # only the first is a mark
        (["\u2581\na\u2581b\n".encode()], [END, "a", "b", END]),
    ],
)
def test_words_and_ends_of_lines(chunks, expected):
    assert pieces(*chunks) == expected
    if b"".join(chunks).translate(None, bytes(range(128))) == b"":
        text = b"".join(chunks).decode().splitlines(keepends=True)
        assert [*words_of(text)] == expected, "lines give the same words"


def test_no_word_is_endless(tmp_path):
    path = tmp_path / "x"
    path.write_bytes(b"x" * (3 << 16) + b" y")
    with path.open("rb") as file:
        *words, last, end = words_of(arriving(file.fileno()))
    assert "".join(words) == "x" * (3 << 16)
    assert max(map(len, words)) == 1000
    assert (last, end) == ("y", END)


def test_characters_are_composed_before_they_are_counted():
    text = "あ" * 999 + "\u304b\u3099" * 2  # a syllable and its mark, on either side of a cut
    assert [*words_of([f"{text}\n"], characters=True)] == [*"あ" * 999, "が", "が", END]


@pytest.mark.parametrize("letter", ["\u200c", "\u200d", "\u00ad"])
def test_what_shapes_a_word_is_part_of_it(letter):
    assert keyboard.with_key("می", letter) == f"می{letter}"
    assert keyboard.with_key("می", "\x07") == "می"


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


def test_the_translation_is_a_line_for_a_line_and_an_endless_sentence_is_cut(output):
    print_translation(interpret(Echo(), ["a", "b", END, END, "c", END], pytest.fail), output)
    warnings = []
    print_translation(interpret(Echo(), [*"abcdefghi", END], warnings.append), output)
    assert text_of(output) == "A B\n\nC\nA B C D\nE F G H\nI\n"
    assert len(warnings) == 2


def test_a_sentence_that_just_fits_is_one_line(output):
    print_translation(interpret(Echo(), [*"abcd", END, "e", END], pytest.fail), output)
    assert text_of(output) == "A B C D\nE\n"


@pytest.mark.parametrize("prints", [print_translation, print_events])
def test_every_word_is_flushed_before_the_next_is_read(prints, output):
    sizes = list[int]()

    def words() -> Iterator[str]:
        for word in ("a", "b", END):
            yield word
            sizes.append(os.fstat(output.fileno()).st_size)

    prints(interpret(Echo(), words(), pytest.fail), output)
    assert sizes == sorted({*sizes})
    assert sizes[-1] == len(text_of(output))


def test_actions_tell_every_word(output):
    print_events(interpret(Echo(), ["a", "b", END, "c", END], pytest.fail), output)
    events = [json.loads(line) for line in text_of(output).splitlines()]
    seconds = [event.pop("seconds") for event in events]
    assert seconds == sorted(seconds)
    told = [[*event.values()] for event in events]
    assert told[:4] == [
        [1, "READ", "a"],
        [1, "READ", "b"],
        [1, "WRITE", "A", 2],
        [1, "WRITE", "B", 2],
    ]
    assert told[4:6] == [[1, "END", 2, 2], [2, "READ", "c"]]
    assert told[6:] == [[2, "WRITE", "C", 1], [2, "END", 1, 1]]
    assert [*events[2]] == ["sentence", "action", "word", "read"]
    assert [*events[4]] == ["sentence", "action", "read", "length"]


FINISH = "\x04"
ACTIONS = ("READ", "WRITE", "READ", "WRITE", "WRITE", "END")


@pytest.fixture
def terminal():
    """Both ends, the program's already letter by letter: else what is typed first is a line."""
    person, program = pty.openpty()
    tty.setcbreak(program)
    yield person, program
    os.close(person)
    os.close(program)


@pytest.mark.parametrize(
    ("keys", "expected"),
    [
        (FINISH, []),
        ("ein Wort\n", ["ein", "Wort", END]),
        ("ein Wort" + FINISH, ["ein", "Wort", END]),
        ("a\r\nb\r", ["a", END, END, "b", END]),
        ("Grüß\x7f\x7fn  x ", ["Grn", "x", END]),
        ("ab\x17c\x15d\n", ["d", END]),
        ("\x7fa\x1b[A\x1b[3~b\x1bOP\x00\x07\n", ["ab", END]),
        ("日本 語\n", ["日本", "語", END]),
    ],
)
def test_words_and_corrections(terminal, keys, expected):
    person, program = terminal
    before = termios.tcgetattr(program)
    os.write(person, (keys + FINISH).encode())
    assert [*words_of(typed(program, lambda _: None))] == expected
    assert termios.tcgetattr(program) == before


def test_a_word_goes_off_before_the_line_ends(terminal):
    person, program = terminal
    shown: list[str] = []
    words = words_of(typed(program, shown.append))
    for text, word in ((b"der Ma", "der"), (b"nn ", "Mann")):
        os.write(person, text)
        assert next(words) == word
    assert shown == ["d", "de", "der", "", "M", "Ma", "Man", "Mann"]
    words.close()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_that_ends_the_process_leaves_the_terminal_as_it_was(terminal, number):
    person, program = terminal
    before, handler = termios.tcgetattr(program), signal.getsignal(number)
    with closing(typed(program, lambda _: None)) as text:
        os.write(person, b"der ")
        assert next(text) == "der "
        with pytest.raises(SystemExit) as end:  # noqa: PT012  (the signal may come early)
            Timer(0.1, os.kill, (os.getpid(), number)).start()  # while the program waits for keys
            next(text)
    assert end.value.code == 128 + number
    assert (termios.tcgetattr(program), signal.getsignal(number)) == (before, handler)


def test_the_screen_shows_both_sides():
    output = io.StringIO()
    with closing(Screen(Console(file=output, force_terminal=True, width=60))) as screen:
        screen.typing("de")
        for action, word in zip(ACTIONS, ["der", "the", "Mann", "man", "[red]", ""], strict=True):
            screen.show(Event(action, 1, word))
    text = output.getvalue()
    assert "> de" in text
    assert "> der Mann" in text
    assert "the man [red]" in text


def test_words_beyond_the_end_of_a_sentence_begin_the_next_pair_of_lines():
    output = io.StringIO()
    with closing(Screen(Console(file=output, force_terminal=True, width=60))) as screen:
        for word in ("der", "Mann", "und"):
            screen.show(Event("READ", 1, word))
        screen.show(Event("END", 1, read=3, length=2))
        before = output.tell()
        screen.show(Event("WRITE", 2, "and", 3))
    *_, last = output.getvalue()[before:].partition("> und")
    assert "and" in last
    assert "Mann" not in output.getvalue()[before:]
