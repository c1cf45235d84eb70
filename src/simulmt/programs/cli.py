"""The command `simulmt VERB ...`, and `python train.py ...` and its neighbours in a clone."""

import os
import shlex
import sys
from io import TextIOWrapper
from pathlib import Path

from simulmt import __version__
from simulmt.errors import UserError
from simulmt.system import ending

VERBS = (
    *("train", "evaluate", "translate", "serve", "report", "analyse", "align", "distil"),
    *("export", "import", "score", "oracle"),
)
"""Each has a file in `conf`, which explains it."""
COMMAND = "SIMULMT_COMMAND"
"""Environment variable with the command as the user typed it, for all processes of that command."""
_HELP = ("-h", "--help")


def main(verb: str | None = None) -> None:
    """Run a verb with the arguments of the command line.

    Args:
        verb: the verb that a script stands for; None to take it off the command line.

    Raises:
        SystemExit: with 2 on bad input, with 130 after Ctrl-C.
    """
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            # as in all files: a locale may lack the characters of a picture or a translation
            stream.reconfigure(encoding="utf-8", errors=stream.errors)
    # How often a thread of OpenMP checks for work before it sleeps. With the default, 300,000, two
    # threads beside other work wait for each other most of the time.
    os.environ.setdefault("GOMP_SPINCOUNT", "1000")
    program = Path(sys.argv[0]).name if verb else "simulmt"
    os.environ.setdefault(COMMAND, shlex.join([program, *sys.argv[1:]]))
    if verb is None:
        first = sys.argv[1] if len(sys.argv) > 1 else _HELP[0]
        if first in {"-sc", "--shell-completion"}:
            verb = _completed()
        else:  # Hydra reads the rest of the command line
            verb, sys.argv = first, [sys.argv[0], *sys.argv[2:]]
    if verb in VERBS and not {*_HELP} & {*sys.argv}:
        if verb in {"train", "distil"}:  # they may take days, in many processes
            ending.begin()  # before the other imports, which may take a minute
        from simulmt.programs import command  # noqa: PLC0415

        command.run(verb)
        return
    try:
        print(_answer(verb, sys.argv[1:]), flush=True)
    except BrokenPipeError:  # the reader, such as `head`, has exited
        ending.drop_output()
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(ending.BAD_INPUT)


def _completed() -> str:
    """Take the verb off the line that a shell completes; print the verbs if it has none yet."""
    name, *words = os.environ.get("COMP_LINE", f"simulmt {VERBS[0]} ").split(" ", 2)
    if len(words) < 2 or words[0] not in VERBS:
        print(*VERBS)
        sys.exit()
    os.environ["COMP_LINE"] = f"{name} {words[1]}"
    return words[0]


def _answer(verb: str, words: list[str]) -> str:
    """Return the answer to a command that needs neither Hydra nor torch."""
    from simulmt.programs.help import explain, usage  # noqa: PLC0415  (only used here)

    if verb in VERBS:
        return explain(verb, words)
    if verb in _HELP:
        return usage(VERBS)
    if verb in {"-V", "--version"}:
        return f"simulmt {__version__}"
    raise UserError(f"{verb!r} is not a verb; choose one of {', '.join(VERBS)}")
