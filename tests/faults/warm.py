"""Commands as typed, each in a fork of a warm process: importing torch takes seconds.

`Warm` starts that process, `python -m faults.warm`, which reads an order a line and answers it.
"""

from __future__ import annotations

import atexit
import contextlib
import gc
import json
import os
import pkgutil
import resource
import runpy
import signal
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from faults.injector import COMMAND, Fault, group, install

ROOT = Path(__file__).parents[2]
PATIENCE = 15.0
"""Seconds in which all processes of a command are gone, once its first one is or gets SIGTERM."""


class Answer(NamedTuple):
    """What a command did.

    Attributes:
        command: As typed.
        status: The exit status; negative for a signal.
        out: Its output.
        err: Its errors.
        seconds: How long it took.
        memory: The most that it had resident, in bytes.
        late: Whether it took longer than it may, and was sent SIGTERM.
        orphans: The processes that were left.
    """

    command: str
    status: int
    out: str
    err: str
    seconds: float
    memory: int
    late: bool
    orphans: int

    def __str__(self) -> str:
        facts = f"status {self.status}, {self.seconds:.1f} s, {self.memory >> 20} MiB"
        return f"$ {self.command}\n{facts}\n{self.out[-1500:]}{self.err[-3000:]}"


class Warm:
    """Types commands into a warm process; a folder takes what they print."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        path = [ROOT / "tests/faults/site", ROOT / "tests", *sys.path]
        self._environment = os.environ | {
            "OMP_NUM_THREADS": "1",
            "PYTHONPATH": os.pathsep.join(map(str, filter(None, path))),
        }
        self._process = subprocess.Popen(
            [sys.executable, "-m", "faults.warm"],
            **{"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True},
            cwd=folder,  # a value may be taken for the name of a folder
            env=self._environment,
        )

    def __call__(
        self,
        *command: object,
        fault: Fault | None = None,
        seconds: float = 60,
        memory: int = 0,
    ) -> Answer:
        """Run a program, in bytes of memory and in seconds."""
        assert self._process.stdin
        assert self._process.stdout
        words = [*map(str, command)]
        order = {
            "command": words,
            "environment": fault.pack() if fault else {},
            **{"seconds": seconds, "memory": memory},
            "files": [str(self._folder / name) for name in ("stdout", "stderr")],
        }
        print(json.dumps(order), file=self._process.stdin, flush=True)
        answer = json.loads(self._process.stdout.readline())
        out, err = (Path(file).read_text(errors="replace") for file in order["files"])
        return Answer(" ".join(words), out=out, err=err, **answer)

    def close(self) -> None:
        """End the warm process."""
        self._process.communicate()


def main() -> None:
    """Answer orders until standard input ends."""
    warm_up()
    for line in sys.stdin:
        order = json.loads(line)
        began = time.monotonic()
        if (process := os.fork()) == 0:
            become(order)
        late, status, used = wait(process, began + order["seconds"])
        end = time.monotonic() + PATIENCE
        while (left := group(process)) and time.monotonic() < end:
            time.sleep(0.02)
        for orphan in left:
            os.kill(orphan, signal.SIGKILL)
        answer = {
            "status": os.waitstatus_to_exitcode(status),
            "seconds": time.monotonic() - began,
            "memory": 1024 * used.ru_maxrss,
            **{"late": late, "orphans": len(left)},
        }
        print(json.dumps(answer), flush=True)


def wait(process: int, end: float) -> tuple[bool, int, resource.struct_rusage]:
    """Wait for a process; at the end of its time send SIGTERM, and then SIGKILL."""
    late, signals = False, [signal.SIGKILL, signal.SIGTERM]
    while True:
        done, status, used = os.wait4(process, os.WNOHANG)
        if done:
            return late, status, used
        if time.monotonic() > end:
            late, end = True, end + PATIENCE
            with contextlib.suppress(ProcessLookupError):  # it has no group yet
                os.killpg(process, signals.pop() if signals else signal.SIGKILL)
        time.sleep(0.005)


def become(order: Mapping[str, Any]) -> None:
    """Run the program of an order in this process, and end as it ends."""
    status: Any = 0
    try:
        os.setsid()
        os.environ[COMMAND] = str(os.getpid())
        signal.signal(signal.SIGINT, signal.default_int_handler)
        for number, file in enumerate(["/dev/null", *order["files"]]):
            flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND if number else os.O_RDONLY
            os.dup2(os.open(file, flags, 0o644), number)
        os.environ.update(order["environment"])
        if order["memory"]:
            used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
            resource.setrlimit(resource.RLIMIT_AS, (used + order["memory"],) * 2)
        program, *options = order["command"]
        sys.argv = [str(ROOT / program), *options]
        sys.orig_argv = [sys.executable, *sys.argv]  # which the ranks of a run repeat
        install()
        runpy.run_path(sys.argv[0], run_name="__main__")
    except SystemExit as end:
        status = end.code or 0
    except BaseException:
        status = 1
        traceback.print_exc()
    finally:  # what Python does at exit, but for tidying its memory, which takes a second
        threading._shutdown()
        atexit._run_exitfuncs()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status if isinstance(status, int) else 1)


def warm_up() -> None:
    """Import all that the programs may need; a picture of a run is an empty file."""
    import simulmt

    for module in pkgutil.walk_packages(simulmt.__path__, "simulmt."):
        with contextlib.suppress(ImportError):  # of what is optional
            __import__(module.name)
    from hydra.core.plugins import Plugins

    from simulmt.analysis import summary

    Plugins.instance()
    summary.draw_path = lambda _, path: Path(path).touch()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    gc.collect()
    gc.freeze()


if __name__ == "__main__":
    main()
