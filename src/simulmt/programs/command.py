"""Runs the Hydra programs: an error that a user can put right is one line, without a traceback."""

import logging
import os
import re
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import NoReturn

from hydra.errors import HydraException, OverrideParseException
from omegaconf.errors import OmegaConfBaseException

from simulmt.disk import explain, os_error
from simulmt.errors import UserError
from simulmt.programs.plain import explain_entry
from simulmt.programs.traces import tidy

_NULL = "a group (data, mechanism, model, ...) needs a choice, it cannot be null"


def run(main: Callable[[], None]) -> None:
    """Call a `hydra.main` program, and turn its exceptions into an exit status.

    Raises:
        SystemExit: with 2 on bad input, with 130 after Ctrl-C.
    """
    os.environ.setdefault("HYDRA_FULL_ERROR", "1")  # Hydra then hands exceptions on
    logging.raiseExceptions = False  # a log on a full disk is no reason to print tracebacks
    try:
        _refuse_empty(sys.argv[1:])
        main()
    except KeyboardInterrupt as error:
        end(str(error) or "interrupted", 130)
    except Exception as error:  # of Hydra: `job` lets no other one out
        end(why(error))
    finally:
        tidy()


@contextmanager
def job() -> Iterator[None]:
    """Wrap the work of a program: its errors end it before Hydra adds lines to the message."""
    try:
        yield
        sys.stdout.flush()
    except UserError as error:
        end(str(error))
    except OSError as error:
        if error.filename is None:  # of the output: Python would try to write it again
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if not isinstance(error, BrokenPipeError):  # the reader of the output has gone
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
    """Return what Hydra found; for a misspelt key or choice, also list those that exist."""
    if isinstance(error, OverrideParseException):
        why = error.message.partition("\nSee ")[0]
        return f"{error.override!r} cannot be read ({why}); write KEY=VALUE or GROUP=CHOICE"
    cause, text = error.__cause__, str(error)
    if isinstance(cause, OmegaConfBaseException) and cause.parent_node is not None:
        keys = ", ".join(map(str, cause.parent_node))
        return f"{text.splitlines()[0]} The keys there are: {keys}"
    if isinstance(error, UserError | OmegaConfBaseException):
        return str(error) if isinstance(error, UserError) else explain_entry(error)
    if isinstance(error, HydraException):
        text = re.split(r"\n(?:Config search path:|full_key:)|, set env var", text)[0]
        return re.sub("\n\t", ", ", re.sub(r"\n+(.*):\n\t", r"; \1: ", text))
    if (refused := os_error(error)) is not None:  # such as a directory that cannot be made
        return explain(refused, "Hydra's record in the run directory")
    null = text.endswith("Got NoneType")
    return _NULL if null else f"Hydra cannot start with these options: {text}"


def end(message: str, status: int = 2) -> NoReturn:
    """Print the message in one line, and exit with the status."""
    print(f"error: {' '.join(message.splitlines())}", file=sys.stderr)
    sys.exit(status)
