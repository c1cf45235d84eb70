"""The command `simulmt VERB ...`, and `python train.py ...` and its neighbours in a clone."""

import os
import sys
from collections.abc import Sequence
from keyword import iskeyword
from pathlib import Path

from simulmt import __version__, ending
from simulmt.errors import UserError
from simulmt.plugins import CONF, HOME, conf_folders, named

VERBS = (
    *("train", "evaluate", "translate", "serve", "report", "analyse", "align", "distil"),
    *("export", "import"),
)
"""Each has a file in `conf`, which explains it, and a function in `simulmt.programs.verbs`, whose
name ends in an underscore if the verb is a keyword of Python."""
_LONG = ("train", "distil")
"""What may take days, in many processes, and is told to end."""
_HELP = ("-h", "--help")
_SPINS = "1000"
"""How often a thread of OpenMP looks for work before it sleeps, unless the environment says. With
the default, 300,000, two threads beside other work wait for each other most of the time."""


def main(verb: str | None = None) -> None:
    """Run a verb with the arguments of the command line.

    Args:
        verb: the verb that a script stands for; None to take the first argument.

    Raises:
        SystemExit: with 2 on bad input, with 130 after Ctrl-C.
    """
    os.environ.setdefault("GOMP_SPINCOUNT", _SPINS)
    words = sys.argv[1:]
    if verb is None:
        verb, *words = words or [_HELP[0]]
    if verb in VERBS and not {*_HELP} & {*words}:
        if verb in _LONG:
            ending.begin()  # at once: the other imports may take a minute
        from simulmt.programs import command, verbs  # noqa: PLC0415

        function = f"{verb}_" if iskeyword(verb) else verb
        command.run(getattr(verbs, function), verb, words)
        return
    try:
        print(_answer(verb, words), flush=True)
    except BrokenPipeError:  # the reader, such as `head`, has gone
        ending.drop_output()
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(ending.BAD_INPUT)


def _answer(verb: str, words: Sequence[str]) -> str:
    """Return the answer to a command that needs neither Hydra nor torch."""
    from simulmt.programs.completion import complete, script  # noqa: PLC0415  (only used here)
    from simulmt.programs.help import explain, usage  # noqa: PLC0415

    if verb in VERBS:
        return explain(verb, [word for word in words if word not in _HELP], _folders(words))
    if verb in _HELP:
        return usage(VERBS, _folders(words))
    if verb in {"-V", "--version"}:
        return f"simulmt {__version__}"
    if verb == "--completion":
        return script(words[0] if words else "")
    if verb == "--complete":
        line = " ".join(words)
        return "\n".join(complete(line, VERBS, _folders(line.split())))
    raise UserError(f"{verb!r} is not a verb; choose one of {', '.join(VERBS)}")


def _folders(words: Sequence[str]) -> list[Path]:
    """Return the configuration folders, those of plugins last."""
    return [HOME / CONF, *conf_folders(named(words)).values()]
