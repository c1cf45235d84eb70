"""Runs the programs under Hydra. An error that a user can put right is one line, no traceback."""

import logging
import os
import re
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from tempfile import TemporaryDirectory
from typing import Any, NoReturn

import hydra
from hydra.errors import HydraException, OverrideParseException
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from simulmt.disk import explain, os_error
from simulmt.ending import BAD_INPUT, INTERRUPTED, drop_output
from simulmt.errors import UserError
from simulmt.plugins import CONF, HOME, named
from simulmt.programs import search_path
from simulmt.programs.plain import explain_entry, plugins_of
from simulmt.programs.traces import tidy
from simulmt.training.run_name import run_name, within

_NULL = "a group (data, mechanism, model, ...) needs a choice, it cannot be null"
_typed: list[str] = []
"""The command line as the user typed it; `run` changes it for Hydra."""


def run(program: Callable[[DictConfig], Any], verb: str, words: Sequence[str]) -> None:
    """Let Hydra compose the configuration of a verb and call its program.

    Args:
        program: takes the configuration.
        verb: the name of the configuration in `conf`.
        words: the command line after the verb.

    Raises:
        SystemExit: with 2 on bad input, with 130 after Ctrl-C.
    """
    os.environ.setdefault("HYDRA_FULL_ERROR", "1")  # Hydra then raises the exceptions themselves
    logging.raiseExceptions = False  # a log on a full disk is no reason to print tracebacks
    try:
        _refuse_empty(words)
        search_path.register(named(words))
        with TemporaryDirectory() as scratch:
            OmegaConf.register_new_resolver("run_name", run_name, replace=True)
            OmegaConf.register_new_resolver("within", within, replace=True)
            OmegaConf.register_new_resolver("scratch", lambda: scratch, replace=True)
            _typed[:] = sys.argv
            sys.argv[1:] = _for_hydra(words)
            hydra.main(str(HOME / CONF), verb, version_base="1.3")(program)()
    except KeyboardInterrupt as error:
        end(str(error) or "interrupted", INTERRUPTED)
    except Exception as error:  # from Hydra: `job` handles all others
        end(why(error))
    finally:
        tidy()


def _for_hydra(words: Sequence[str]) -> list[str]:
    """Return a command line as Hydra takes it: the flags together, and any dial.

    A mechanism says which dials it has.
    """
    overrides = [word for word in words if re.match(r"~|[^-].*=", word)]
    others = [word for word in words if word not in overrides]
    return [*(f"++{w}" if re.match(r"dial2?\.", w) else w for w in overrides), *others]


@contextmanager
def job(config: DictConfig) -> Iterator[None]:
    """Load the plugins for the work of a program, and end the process on its errors.

    Otherwise Hydra would add lines to the message.

    Args:
        config: names the plugins.
    """
    from simulmt.parts import load  # noqa: PLC0415  (torch, only once there is work)

    sys.argv[:] = _typed or sys.argv  # Lightning starts the other processes of a run with it
    try:
        load(plugins_of(config))
        yield
        sys.stdout.flush()
    except UserError as error:
        end(str(error))
    except OSError as error:
        if error.filename is None:  # standard output
            drop_output()
        if not isinstance(error, BrokenPipeError):  # which says that nobody reads the output
            end(explain(error))
    except Exception:
        traceback.print_exc()
        sys.exit(1)


def _refuse_empty(arguments: Sequence[str]) -> None:
    """Refuse `model={}`: Hydra merges an empty group into the default, which stays as it is."""
    for argument in arguments:
        if empty := re.fullmatch(r"\+*([^=]+)=(?:.*,)?\s*\{\s*\}\s*(?:,.*)?", argument):
            end(
                f"{argument!r} chooses nothing, and would leave {empty[1]} as it is; leave it out, "
                f"or give {empty[1]}=CHOICE or {empty[1]}.KEY=VALUE"
            )


def why(error: Exception) -> str:
    """Return Hydra's error in one line; for a misspelt key or choice, with the valid ones."""
    if isinstance(error, OverrideParseException):
        why = error.message.partition("\nSee ")[0]
        return f"{error.override!r} cannot be read ({why}); write KEY=VALUE or GROUP=CHOICE"
    cause, text = error.__cause__, str(error)
    if isinstance(cause, OmegaConfBaseException) and cause.parent_node is not None:
        keys = ", ".join(map(str, cause.parent_node))
        return f"{text.splitlines()[0]} The valid keys are: {keys}"
    if isinstance(error, UserError | OmegaConfBaseException):
        return str(error) if isinstance(error, UserError) else explain_entry(error)
    if isinstance(error, HydraException):
        text = re.split(r"\n(?:Config search path:|full_key:)|, set env var", text)[0]
        text = re.sub("\n\t", ", ", re.sub(r"\n+(.*):\n\t", r"; \1: ", text))
        return f"{text}{search_path.elsewhere() if 'Could not find' in text else ''}"
    if (refused := os_error(error)) is not None:  # such as a folder that cannot be made
        return explain(refused, "Hydra's record in the run directory")
    null = text.endswith("Got NoneType")
    return _NULL if null else f"Hydra cannot start with these options: {text}"


def end(message: str, status: int = BAD_INPUT) -> NoReturn:
    """Print the message in one line, and exit with the status."""
    print(f"error: {' '.join(message.splitlines())}", file=sys.stderr)
    sys.exit(status)
