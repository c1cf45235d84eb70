"""Runs the Hydra programs: an error that a user can put right is one line, without a traceback."""

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from hydra.errors import HydraException
from omegaconf.errors import OmegaConfBaseException

from simulmt.errors import UserError


def run(main: Callable[[], None]) -> None:
    """Call a `hydra.main` program, and turn its exceptions into an exit status.

    Raises:
        SystemExit: with 2 on bad input, with 130 after Ctrl-C; other exceptions are not caught.
    """
    os.environ.setdefault("HYDRA_FULL_ERROR", "1")  # Hydra then hands exceptions on
    try:
        main()
    except (HydraException, OmegaConfBaseException, OSError) as error:
        _end(_explain(error))
    except ValueError as error:
        if not str(error).startswith("Config group override"):
            raise
        _end("a group (data, mechanism, model, ...) needs a choice, it cannot be null")
    except KeyboardInterrupt:
        _end("interrupted", 130)


@contextmanager
def job() -> Iterator[None]:
    """Wrap the work of a program: a UserError ends it before Hydra adds lines to the message."""
    try:
        yield
    except UserError as error:
        _end(str(error))
    except BrokenPipeError:  # the reader of the output has gone
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _explain(error: Exception) -> str:
    """Return the message of an error; for a misspelt key, also list the keys that exist."""
    if isinstance(error, OmegaConfBaseException):  # an interpolation of nothing
        return str(error).splitlines()[0]
    cause = error.__cause__
    if isinstance(cause, OmegaConfBaseException) and cause.parent_node is not None:
        first = str(error).splitlines()[0]
        return f"{first} The keys there are: {', '.join(map(str, cause.parent_node))}"
    return str(error)  # also of a directory that cannot be made, or a full disk


def _end(message: str, status: int = 2) -> None:
    print(f"error: {message}", file=sys.stderr)
    sys.exit(status)
