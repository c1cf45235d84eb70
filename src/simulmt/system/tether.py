"""Runs a command of the user that ends with this process, however this process ends.

The command runs below a guard, which is this file as a script. The guard holds the reading end of a
pipe; the system closes the writing end with this process, even after SIGKILL, and the guard then
kills the command and all that the command has started.
"""

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Sequence
from typing import IO


def run_tethered(words: Sequence[str], errors: IO[bytes]) -> int:
    """Run a command without input and output, and return its exit status as a shell does.

    Args:
        words: The program and its arguments.
        errors: The file that gets the standard error.
    """
    line = [sys.executable, "-I", __file__, *words]
    pipe, null = subprocess.PIPE, subprocess.DEVNULL
    with subprocess.Popen(
        line, stdin=pipe, stdout=null, stderr=errors, start_new_session=True
    ) as guard:  # leaving the block, also by an exception, closes the pipe
        return _as_shell(guard.wait())


def _as_shell(status: int) -> int:
    return status if status >= 0 else 128 - status


def _guard(words: Sequence[str]) -> int:
    def wait() -> None:
        os.read(0, 1)  # returns at the end of the pipe
        os.killpg(0, signal.SIGKILL)

    threading.Thread(target=wait, daemon=True).start()
    status = subprocess.call(words, stdin=subprocess.DEVNULL)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    os.killpg(0, signal.SIGTERM)  # what the command has left behind
    return _as_shell(status)


if __name__ == "__main__":
    sys.exit(_guard(sys.argv[1:]))
