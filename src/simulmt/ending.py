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
from collections.abc import Callable, Collection
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from types import FrameType
from typing import NoReturn

BAD_INPUT = 2
"""Exit status after an error that a user can put right."""
TERMINATED = 128 + signal.SIGTERM
"""Exit status after SIGTERM, by the convention of shells."""
INTERRUPTED = 128 + signal.SIGINT
"""Exit status after Ctrl-C."""
ENDS_WITH = "SIMULMT_ENDS_WITH"
"""Environment variable with the id of the process that the processes which it starts end with."""
TORCHRUN = "TORCHELASTIC_RUN_ID"
"""Environment variable of the processes that torchrun has started."""
_RANKS = ("LOCAL_RANK", "NODE_RANK", "SLURM_PROCID", "JSM_NAMESPACE_RANK")
"""Environment variables by which launchers number processes or machines; torchrun: RANK."""
_PATIENCE = 8.0
"""Seconds that a process has to end by itself: it may wait for another one in a library."""


@dataclass
class _End:
    """The end of this process: its exit status, what it says, and to whom."""

    status: int = 0
    reason: str = ""
    remedy: str = ""
    speaks: bool = True
    follows: bool = False
    has_begun: bool = False
    tell: Callable[[int, str], None] = lambda status, reason: None


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
    if parent or TORCHRUN in os.environ:
        end_with(parent or os.getppid())
    os.environ[ENDS_WITH] = str(os.getpid())
    if not numbered_first():
        os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "ERROR")  # a lost connection: 100 lines
    if parent:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
    if parent and not numbered_first():
        _end.follows = True
        signal.signal(signal.SIGTERM, lambda *_: os.kill(parent, signal.SIGTERM))
        return
    if parent or not numbered_first():
        _end.speaks = False
    woken, wake = os.pipe()
    os.set_blocking(wake, False)
    signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
    ends = [signal.SIGTERM]
    if not parent and not numbered_first():
        ends.append(signal.SIGINT)  # of which the first process speaks
    for number in ends:
        signal.signal(number, _terminate)
    atexit.register(_keep_status)  # the first to be registered runs last
    threading.Thread(target=_insist, args=(woken, ends), daemon=True).start()


def numbered_first() -> bool:
    """Return whether no launcher has given this process, or its machine, a number above 0."""
    numbers = ("RANK",) if "RANK" in os.environ else _RANKS
    return all(os.environ.get(name, "0") == "0" for name in numbers)


def follows() -> bool:
    """Return whether Lightning has started this process for another one, with which it ends."""
    return _end.follows


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


def tell_with(tell: Callable[[int, str], None]) -> None:
    """Set what tells the other processes of a run the exit status and the reason of an end."""
    _end.tell = tell


def tell(status: int, reason: str) -> None:
    """Tell the other processes of a run that this one ends.

    Args:
        status: the exit status.
        reason: empty if it has been printed.
    """
    _end.tell(status, reason)


def end(status: int, reason: str, *, speaks: bool = False) -> None:
    """End this process, from any of its threads, unless it is ending already.

    Args:
        status: the exit status.
        reason: printed on a line; empty if it has been said.
        speaks: whether to print it even if another process speaks for the run.
    """
    if signal.getsignal(signal.SIGTERM) is _terminate:
        _end.status, _end.reason, _end.speaks = status, reason, speaks or _end.speaks
        os.kill(os.getpid(), signal.SIGTERM)


def killed_by(number: int) -> str:
    """Return the words for a process that a signal has killed; ValueError for no signal."""
    name = signal.Signals(number).name
    return f"killed by {name}{' (out of memory?)' if name == 'SIGKILL' else ''}"


def _terminate(signum: int, frame: FrameType | None) -> NoReturn:
    for number in (signal.SIGTERM, signal.SIGINT):  # `timeout` sends two
        signal.signal(number, signal.SIG_IGN)
    _say(signum)
    raise SystemExit(_end.status)


def _insist(woken: int, ends: Collection[int]) -> None:
    """End this process if a signal has not; Python sees one only between its own steps."""
    while not (caught := [number for number in os.read(woken, 64) if number in ends]):
        pass
    time.sleep(_PATIENCE)
    _say(caught[0])
    os._exit(_end.status)


def _keep_status() -> None:
    """Exit with the status of the end that has begun, if one has."""
    if _end.has_begun:
        with suppress(OSError):
            sys.stdout.flush()
        os._exit(_end.status)


def _say(signum: int) -> None:
    """Print the reason, and nothing else; not with `print`, which the signal may interrupt."""
    if _end.has_begun:
        return
    _end.has_begun = True
    if not _end.status:
        _end.status = 128 + signum
        _end.reason = "terminated" if signum == signal.SIGTERM else "interrupted"
    remedy = _end.remedy if _end.status != BAD_INPUT else ""
    with suppress(OSError):
        _end.tell(_end.status, _end.reason)
        if _end.speaks and _end.reason:
            os.write(2, f"error: {_end.reason}{remedy}\n".encode())
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
