"""A scorer that is a program, such as COMET in its own environment."""

import re
import shlex
import shutil
import signal
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from simulmt.decoding.instance import Instance
from simulmt.errors import UserError
from simulmt.scoring.readers import Reader
from simulmt.scoring.segments import texts
from simulmt.system.disk import write_texts
from simulmt.system.ending import killed_by
from simulmt.system.tether import run_tethered

PLACEHOLDERS = ("source", "output", "reference", "jsonl", "scores")
"""In braces, they stand for the paths of files in a command."""
_PLACEHOLDER = re.compile(r"\{(\w+)\}")


@dataclass(frozen=True)
class Program:
    """A program that scores a decoding.

    No shell runs, although the command is split into words as a shell does: paths need no quotes,
    and a word such as `$(...)` stays text.

    Attributes:
        command: The program and its arguments, with `PLACEHOLDERS` for the paths of files.
        reader: Reads the scores.

    Raises:
        UserError: the command cannot run, or lacks a placeholder.
    """

    command: str
    reader: Reader

    def __post_init__(self) -> None:
        try:
            first, *_ = shlex.split(self.command)
        except ValueError as error:  # a quote that does not close
            raise UserError(f"command={self.command}: {error}") from None
        named = {*_PLACEHOLDER.findall(self.command)}
        if unknown := sorted(named - {*PLACEHOLDERS}):
            raise UserError(f"command has {{{unknown[0]}}}; choose of {', '.join(PLACEHOLDERS)}")
        if "scores" not in named or not named & {"output", "jsonl"}:
            raise UserError(f"command={self.command} needs {{scores}}, and {{output}} or {{jsonl}}")
        if not shutil.which(first):
            raise UserError(f"command: {first} is not a program here: give its whole path")

    def score(self, log: Sequence[Instance]) -> list[float]:
        """Return the score of each sentence, at least one; more is better.

        Raises:
            UserError: the program fails, or its scores cannot be read.
        """
        with TemporaryDirectory() as scratch:
            write_texts(Path(scratch), texts(log))
            command, scores = shlex.split(self.command), Path(scratch, "scores")
            words = [_PLACEHOLDER.sub(lambda name: f"{scratch}/{name[1]}", x) for x in command]
            with Path(scratch, "errors").open("w+b") as errors:
                if status := run_tethered(words, errors):
                    errors.seek(0)
                    raise UserError(f"{self.command:.200}: {_failure(status, errors.read())}")
            try:
                return self.reader.read(scores.read_text("utf-8", "replace"), len(log))
            except FileNotFoundError:
                raise UserError(f"{self.command:.200}: it wrote no {{scores}}") from None
            except UserError as error:
                raise UserError(f"{self.command:.200}: {error}") from None


def _failure(status: int, errors: bytes) -> str:
    last = [*filter(None, map(str.strip, errors.decode("utf-8", "replace").split("\n")))][-1:]
    number = status - 128
    killed = f" ({killed_by(number)})" if number in [*signal.Signals] else ""
    return f"exit status {status}{killed}: {last[0] if last else 'no message':.300}"
