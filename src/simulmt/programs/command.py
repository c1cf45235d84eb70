"""Runs the Hydra programs: what a user can put right is said in one line, without a traceback."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from hydra.errors import ConfigCompositionException, HydraException
from omegaconf.errors import OmegaConfBaseException

from simulmt.errors import UserError


def run(main: Callable[[], None]) -> None:
    """Call a `hydra.main` program and turn what it raises into an exit status.

    Exits with 2 on bad input, with 130 when interrupted; other exceptions keep their traceback.
    """
    os.environ.setdefault("HYDRA_FULL_ERROR", "1")  # Hydra hands exceptions on
    try:
        main()
    except ConfigCompositionException as error:
        _end(_explain(error), 2)
    except HydraException as error:
        _end(str(error), 2)
    except OmegaConfBaseException as error:  # an interpolation of nothing
        _end(str(error).splitlines()[0], 2)
    except OSError as error:  # a directory that cannot be made, a disk that is full
        _end(str(error), 2)
    except ValueError as error:
        if not str(error).startswith("Config group override"):
            raise
        _end("a group (data, mechanism, model, ...) needs a choice, it cannot be null", 2)
    except KeyboardInterrupt:
        _end("interrupted", 130)


@contextmanager
def job() -> Iterator[None]:
    """Around what a program does: ends it before Hydra adds lines of its own to an error."""
    try:
        yield
    except UserError as error:
        _end(str(error), 2)
    except BrokenPipeError:  # the reader of the output has gone; nothing is left to say
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _explain(error: ConfigCompositionException) -> str:
    """Hydra's message, and for a misspelt key the keys that there are."""
    cause = error.__cause__
    if not isinstance(cause, OmegaConfBaseException) or cause.parent_node is None:
        return str(error)
    first = str(error).splitlines()[0]
    return f"{first} The keys there are: {', '.join(map(str, cause.parent_node))}"


def _end(message: str, status: int) -> None:
    print(f"error: {message}", file=sys.stderr)
    sys.exit(status)
