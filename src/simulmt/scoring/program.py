"""A scorer that is a program, such as COMET in its own environment."""

import re
import shlex
import shutil
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from simulmt.decoding.instance import Instance
from simulmt.errors import UserError
from simulmt.scoring.readers import Reader
from simulmt.scoring.segments import texts
from simulmt.system.disk import write_text
from simulmt.system.ending import failure
from simulmt.system.tether import run_tethered

PLACEHOLDERS = ("source", "output", "reference", "jsonl", "scores")
"""In braces, they stand for the paths of files in a command."""
_PLACEHOLDER = re.compile(r"\{(\w+)\}")


def check_command(command: str) -> list[str]:
    """Return the words of a command, the program first, with `PLACEHOLDERS` for the paths of files.

    No shell runs, although the command is split into words as a shell does: paths need no quotes,
    and a word such as `$(...)` stays text.

    Raises:
        UserError: the command cannot run, or lacks a placeholder.
    """
    try:
        first, *_ = words = shlex.split(command)
    except ValueError as error:  # a quote that does not close
        raise UserError(f"command={command}: {error}") from None
    named = {*_PLACEHOLDER.findall(command)}
    if unknown := sorted(named - {*PLACEHOLDERS}):
        raise UserError(f"command has {{{unknown[0]}}}; choose one of {', '.join(PLACEHOLDERS)}")
    if "scores" not in named or not named & {"output", "jsonl"}:
        raise UserError(f"command={command} needs {{scores}}, and {{output}} or {{jsonl}}")
    if not shutil.which(first):
        raise UserError(f"command: {first} is not a program here: give its whole path")
    return words


def run_scorer(words: Sequence[str], reader: Reader, log: Sequence[Instance]) -> list[float]:
    """Return the score of each sentence, at least one; more is better.

    Args:
        words: The command, as `check_command` returns it.
        reader: Reads the scores.
        log: The sentences.

    Raises:
        UserError: the program fails, or its scores cannot be read.
    """
    command = f"{' '.join(words):.200}"
    with TemporaryDirectory() as scratch:
        for name, text in texts(log).items():
            write_text(Path(scratch) / name, text)
        filled = [_PLACEHOLDER.sub(lambda name: f"{scratch}/{name[1]}", word) for word in words]
        with Path(scratch, "errors").open("w+b") as errors:
            if status := run_tethered(filled, errors):
                errors.seek(0)
                raise UserError(f"{command}: {_failure(status, errors.read())}")
        try:
            return reader.read(Path(scratch, "scores").read_text("utf-8", "replace"), len(log))
        except FileNotFoundError:
            raise UserError(f"{command}: it wrote no {{scores}}") from None
        except UserError as error:
            raise UserError(f"{command}: {error}") from None


def _failure(status: int, errors: bytes) -> str:
    """Return how the program ended, and its last line of standard error."""
    last = [*filter(None, map(str.strip, errors.decode("utf-8", "replace").split("\n")))][-1:]
    return f"{failure(status)}: {last[0] if last else 'no message':.300}"
