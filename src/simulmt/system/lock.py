"""The lock for work that one process at a time may do: an entry of a cache, a run, a job."""

import errno
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from filelock import FileLock, Timeout

from simulmt.errors import UserError
from simulmt.system.console import say

_REMINDER = 600
"""Seconds between two lines about waiting for a lock."""
_WITHOUT_LOCKS = {errno.ENOSYS, errno.ENOLCK, errno.EOPNOTSUPP, errno.EROFS}
"""The errors of a file system without locks, or without writing."""


class BusyError(UserError):
    """Another process holds the lock."""


@contextmanager
def alone(place: Path, *, waits: bool = True) -> Iterator[bool]:
    """Lock a file or a folder by the file `.NAME.lock` beside it.

    The system releases the lock however the process ends; the file stays.

    Args:
        place: the file or folder, which may be absent. The folder above it must exist.
        waits: if another process holds the lock, print its name and wait.

    Yields:
        True if the lock is held; False without locks, or in a folder that cannot be written.

    Raises:
        BusyError: another process holds the lock, and `waits` is False; the message names it.
        UserError: the lock is another user's.
    """
    file = lock_of(place)
    lock, timeout = FileLock(file, fallback_to_soft=False), 0
    while not lock.is_locked:
        try:
            lock.acquire(timeout, poll_interval=0.2)
        except Timeout:
            holder = "another process"
            with suppress(OSError):  # it may have been removed; on Windows nobody may read it
                holder = file.read_text() or holder
            if not waits:
                raise BusyError(f"{holder} is working on {place}; wait for it") from None
            say(f"waiting: {holder} is working on {place}")
            timeout = _REMINDER
        except NotImplementedError:  # a system without locks
            break
        except OSError as error:
            if error.errno not in _WITHOUT_LOCKS and os.access(file.parent, os.W_OK):
                why = f"the lock {file} cannot be opened ({error.strerror})"
                raise UserError(f"{why}: check its owner and permissions") from None
            break
    try:
        if lock.is_locked:
            with suppress(OSError):  # only for messages
                file.write_text(f"process {os.getpid()} on {socket.gethostname()}")
        yield lock.is_locked
    finally:
        lock.release()


def lock_of(place: Path) -> Path:
    """Return the file that locks a file or a folder."""
    return place.with_name(f".{place.name}.lock")
