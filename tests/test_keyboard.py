"""What a person types at a terminal goes off word by word."""

from __future__ import annotations

import io
import os
import pty
import signal
import termios
import tty
from contextlib import closing
from threading import Timer

import pytest
from rich.console import Console

from simulmt.live.interpreter import END, Event, words_of
from simulmt.live.keyboard import Screen, typed

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
        Timer(0.1, os.kill, (os.getpid(), number)).start()  # while the program waits for keys
        with pytest.raises(SystemExit) as end:
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
