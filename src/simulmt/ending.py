"""How the processes of a run end: on a signal, with their parent, and with one another.

A program calls `begin` in its first line, before imports that may take a minute; so this module
imports nothing that is slow.
"""

import atexit
import os
import signal
import sys
import threading
import time
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from types import FrameType
from typing import NoReturn

TERMINATED = 128 + signal.SIGTERM
"""Exit status after SIGTERM, by the convention of shells."""
ENDS_WITH = "SIMULMT_ENDS_WITH"
"""Environment variable with the id of the process that the processes which it starts end with."""
_RANKS = ("RANK", "LOCAL_RANK", "SLURM_PROCID", "JSM_NAMESPACE_RANK")
"""Environment variables by which launchers number processes, in Lightning's order."""
_PATIENCE = 8.0
"""Seconds that a process has to end by itself: it may wait for another one in a library."""


@dataclass
class _End:
    """The end of this process: its exit status, and what it says."""

    status: int = TERMINATED
    reason: str = "terminated"
    remedy: str = ""
    has_begun: bool = False


_end = _End()


def begin() -> None:
    """Let this process end on SIGTERM at any moment, and with the process that started it.

    SIGTERM raises SystemExit wherever the process is, so that it closes its files. A library may
    turn the exception into another one, or lose it, above all within an import: what follows is not
    printed, and does not change the exit status. A process that is not gone in time is ended.

    The processes that Lightning starts leave the signal to the first one, which they end with.
    Nothing is said in a run of a sweep: the sweep says why a run has ended. Ctrl-C is for the
    process that the user started, and the others end with it.

    Windows knows none of this: a process that is killed there leaves those that it has started.
    """
    if sys.platform == "win32":  # where SIGTERM ends a process at once
        return
    parent = int(os.environ.get(ENDS_WITH, "0"))
    if parent == os.getpid():  # another program in the same process
        return
    if parent or "TORCHELASTIC_RUN_ID" in os.environ:
        end_with(parent or os.getppid())
    os.environ[ENDS_WITH] = str(os.getpid())
    if parent:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
    if parent and not numbered_first():
        signal.signal(signal.SIGTERM, lambda *_: os.kill(parent, signal.SIGTERM))
        os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "ERROR")  # a lost connection: 100 lines
        return
    if parent or not numbered_first():
        _end.reason = ""
    woken, wake = os.pipe()
    os.set_blocking(wake, False)
    signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
    signal.signal(signal.SIGTERM, _terminate)
    atexit.register(_keep_status)  # the first to be registered runs last
    threading.Thread(target=_insist, args=(woken,), daemon=True).start()


def numbered_first() -> bool:
    """Return whether no launcher has given this process another number than 0."""
    return next((os.environ[name] for name in _RANKS if name in os.environ), "0") == "0"


@cache  # one thread is enough
def end_with(parent: int) -> None:
    """Kill this process as soon as its parent has ended, for whatever reason.

    Otherwise a sweep that is restarted after a kill would meet its own runs in training, and a
    process alone on a GPU would wait ten minutes for the others.

    Args:
        parent: process id.
    """

    def wait() -> None:
        while os.getppid() == parent:
            time.sleep(0.2)
        os.kill(os.getpid(), signal.SIGKILL)

    threading.Thread(target=wait, daemon=True).start()


def drop_output() -> None:
    """Drop what is still to be printed: nobody reads it, and Python would try again at its end."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def remedy(text: str) -> None:
    """Set what the line that this process prints at its end tells the user to do."""
    _end.remedy = f"; {text}"


def end(status: int, reason: str) -> None:
    """End this process, from any of its threads, unless it is ending already.

    Args:
        status: the exit status.
        reason: printed on a line; empty if it has been said.
    """
    if signal.getsignal(signal.SIGTERM) is _terminate:
        _end.status, _end.reason = status, reason if _end.reason else ""
        os.kill(os.getpid(), signal.SIGTERM)


def killed_by(number: int) -> str:
    """Return the words for a process that a signal has killed; ValueError for no signal."""
    name = signal.Signals(number).name
    return f"killed by {name}{' (out of memory?)' if name == 'SIGKILL' else ''}"


def _terminate(signum: int, frame: FrameType | None) -> NoReturn:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # `timeout` sends two
    _say()
    raise SystemExit(_end.status)


def _insist(woken: int) -> None:
    """End this process if SIGTERM has not; Python sees a signal only between its own steps."""
    while signal.SIGTERM not in os.read(woken, 64):
        pass
    time.sleep(_PATIENCE)
    _say()
    os._exit(_end.status)


def _keep_status() -> None:
    """Exit with the status of the end that has begun, if one has."""
    if _end.has_begun:
        with suppress(OSError):
            sys.stdout.flush()
        os._exit(_end.status)


def _say() -> None:
    """Print the reason, and nothing else; not with `print`, which the signal may interrupt."""
    reason, _end.reason, _end.has_begun = _end.reason, "", True
    with suppress(OSError):
        if reason:
            os.write(2, f"error: {reason}{_end.remedy}\n".encode())
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
