"""Work on all cores, block by block, with the results in order."""

import multiprocessing
import os
import signal
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from itertools import islice
from typing import Any, TypeVar

from simulmt.errors import UserError
from simulmt.system.cores import cores
from simulmt.system.ending import end_with

T = TypeVar("T")
R = TypeVar("R")
_own: list[Callable[[Any], Any]] = []  # the work that this process was started for
_WORTH = 1 << 24  # bytes: less would be done before the processes have started


def in_order(work: Callable[[T], R], blocks: Iterable[T], size: int) -> Iterator[R]:
    """Yield the results of some blocks in their order, from a process on each core.

    The processes import the main program, which therefore needs `if __name__ == "__main__"`. They
    end with this process.

    Args:
        work: a function of a block; each process has a separate copy, which keeps its state.
        blocks: the blocks; two for each process are read ahead of the results.
        size: the bytes of all blocks together; few bytes are processed in this process.

    Raises:
        UserError: a process has been killed.
    """
    processes = 1 if size < _WORTH else cores()
    if processes == 1:
        yield from map(work, blocks)
        return
    remaining = iter(blocks)
    pool = ProcessPoolExecutor(
        processes,
        multiprocessing.get_context("spawn"),  # a fork would copy locks
        initializer=_begin,
        initargs=(os.getpid(), work),
    )
    try:
        ahead = deque(pool.submit(_work, block) for block in islice(remaining, 2 * processes))
        while ahead:
            result = ahead.popleft().result()
            ahead.extend(pool.submit(_work, block) for block in islice(remaining, 1))
            yield result
    except BrokenProcessPool:
        raise UserError(
            "a process was killed (out of memory?): close other programs, and repeat the command"
        ) from None
    finally:
        pool.shutdown(cancel_futures=True)


def _begin(parent: int, work: Callable[[Any], Any]) -> None:
    """Prepare a process for its work."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # ends at Ctrl-C, without a traceback
    end_with(parent)
    _own[:] = [work]


def _work(block: Any) -> Any:
    return _own[0](block)
