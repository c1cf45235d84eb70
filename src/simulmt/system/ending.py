"""How a process ends: on a signal with a status and one line, and with the process that started it.

A program calls `begin` in its first line, before imports that may take a minute. Therefore this
module imports nothing slow.
"""

import atexit
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from types import FrameType
from typing import NoReturn

BAD_INPUT = 2
"""Exit status after an error that a user can correct."""
TERMINATED = 128 + signal.SIGTERM
"""Exit status after SIGTERM, by the convention of shells."""
INTERRUPTED = 128 + signal.SIGINT
"""Exit status after Ctrl-C."""
ENDS_WITH = "SIMULMT_ENDS_WITH"
"""Environment variable with the id of a process, for those that it starts and that end with it."""
CONTINUES = "the same command continues"
"""How to continue work that finds what it has done."""
TORCHRUN = "TORCHELASTIC_RUN_ID"
"""Environment variable of the processes that torch's elastic agent has started, also torchrun's."""
STOPPED = {signal.SIGTERM.value: "terminated", signal.SIGINT.value: "interrupted"}
"""Words for the signals that end all work."""
_PATIENCE = 8.0
"""Seconds that a process has to close its files after a signal."""
_started_by = ""
_status = 0
_remedy: Callable[[], str] = str


class Ended(SystemExit):
    """A signal, or an error of several processes, ends this process."""


def begin() -> None:
    """End this process with the one that started it, if that is a process of this program."""
    global _started_by  # noqa: PLW0603
    _started_by = os.environ.pop(ENDS_WITH, "")
    if _started_by or TORCHRUN in os.environ:
        end_with(int(_started_by or os.getppid()))
    if _started_by:  # the process that the user started handles Ctrl-C
        signal.signal(signal.SIGINT, signal.SIG_DFL if is_worker() else signal.SIG_IGN)


def is_first() -> bool:
    """Return True unless torchrun or srun has given this process a rank above 0."""
    return launched()[0] == 0


def launched() -> tuple[int, int]:
    """Return the rank of this process, and how many torchrun or srun has started; (0, 1) alone."""
    if TORCHRUN in os.environ:
        return int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    size = int(os.environ.get("SLURM_STEP_NUM_TASKS") or 1)
    return (int(os.environ["SLURM_PROCID"]) if size > 1 else 0), size


def is_worker() -> bool:
    """Return True if this is a rank of a run whose messages another process of simulmt prints."""
    return bool(_started_by) and TORCHRUN in os.environ


@cache  # one thread is enough
def end_with(parent: int) -> None:
    """Kill this process as soon as its parent, or another process, has ended for whatever reason.

    Otherwise a sweep that is restarted after a kill would find its own runs still training, and a
    single process left on a GPU would wait half an hour for the others.

    Args:
        parent: process id.
    """
    own = os.getppid() == parent

    def wait() -> None:
        with suppress(ProcessLookupError):
            while not own or os.getppid() == parent:
                if not own:
                    os.kill(parent, 0)
                time.sleep(0.2)
        os.kill(os.getpid(), signal.SIGKILL)

    threading.Thread(target=wait, daemon=True).start()


def handle_signals(remedy: Callable[[], str] | None = None) -> None:
    """Close all files at SIGTERM and Ctrl-C, and end with status 143 or 130.

    Args:
        remedy: returns how to continue after an interruption, for the message; without it, that of
            an earlier call counts.
    """
    global _remedy  # noqa: PLW0603
    _remedy = remedy or _remedy
    for number in (signal.SIGTERM, signal.SIGINT):
        if signal.getsignal(number) != signal.SIG_IGN:  # as Ctrl-C in a run of a sweep
            signal.signal(number, _terminate)
    atexit.register(_leave)  # runs after what libraries register later


def end(status: int, reason: str) -> NoReturn:
    """End this process; the process that the user started prints the reason.

    Args:
        status: the exit status.
        reason: printed on a line with how to continue; nothing follows it.
    """
    global _status  # noqa: PLW0603
    _status = status
    if not is_worker() and is_first():
        line = "; ".join(filter(None, [f"error: {reason}", _remedy()]))
        os.write(2, f"{line}\n".encode())  # `print` may be what a signal has interrupted
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
    raise Ended(status)


def end_late(status: int) -> None:
    """End this process in some seconds at the latest: a library may wait for ever."""
    late = threading.Timer(_PATIENCE, os._exit, [status])
    late.daemon = True
    with suppress(RuntimeError):  # there is no room for a thread
        late.start()


def unwind(number: int, frame: FrameType | None) -> NoReturn:
    """Handle a signal by SystemExit, so that all blocks are left as after an exception."""
    raise Ended(128 + number)


def _mask(how: int) -> None:
    signal.pthread_sigmask(how, STOPPED)


def _take(number: int) -> bool:
    """Take a signal that waits; False if another thread has it by now."""
    if sys.platform == "darwin":  # without sigtimedwait
        return signal.sigwait([number]) == number
    return signal.sigtimedwait([number], 0) is not None


def _resume() -> None:
    """Let signals come again that came during a fork: an exception in a hook would be dropped."""
    came = [number for number in STOPPED if number in signal.sigpending() and _take(number)]
    _mask(signal.SIG_UNBLOCK)
    for number in came:
        threading.Timer(0.01, os.kill, (os.getpid(), number)).start()


def _let_forks_end() -> None:
    """Take the handlers from a forked process: they may come too late to end it.

    A `multiprocessing.Pool` sends SIGTERM to workers that are about to wait for a lock.
    """
    for number in STOPPED:
        if signal.getsignal(number) in (_terminate, unwind):
            signal.signal(number, signal.SIG_DFL)
    _mask(signal.SIG_UNBLOCK)


if sys.platform != "win32":  # which does not fork
    os.register_at_fork(
        before=lambda: _mask(signal.SIG_BLOCK),  # until the handlers are gone
        after_in_parent=_resume,
        after_in_child=_let_forks_end,
    )


def drop_output() -> None:
    """Drop what is still to be printed: nothing reads it, and Python would try again at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def failure(status: int) -> str:
    """Return how a process ended, from its status, as a shell or `subprocess` gives it."""
    number = -status if status < 0 else status - 128
    if number not in [*signal.Signals]:
        return f"exit status {status}"
    name = signal.Signals(number).name
    return f"killed by {name}{' (out of memory?)' if name == 'SIGKILL' else ''}"


def _terminate(signum: int, frame: FrameType | None) -> NoReturn:
    for number in (signal.SIGTERM, signal.SIGINT):  # `timeout` sends two
        signal.signal(number, signal.SIG_IGN)
    end_late(128 + signum)
    end(128 + signum, STOPPED[signum])


def _leave() -> None:
    """Exit with the status of `end` at once, even if a library has lost its exception."""
    if _status:
        with suppress(OSError):
            sys.stdout.flush()
        os._exit(_status)
