"""A fault at a file operation: a signal, or an error of the disk, at the n-th that a pattern names.

Python's audit events say what a process is about to do. `install` reads the fault from the
environment variable FAULT, once; a process passes it on to its children if the fault is theirs.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import re
import resource
import signal
import sys
from pathlib import Path
from typing import Any, NamedTuple

VARIABLE = "FAULT"
COMMAND = "FAULTS_COMMAND"
"""Names the first process of a command in the environment of all that it starts."""
NAMES = {
    "os.rename": "rename",
    "os.remove": "remove",
    "os.mkdir": "mkdir",
    "os.rmdir": "rmdir",
    "os.truncate": "truncate",
    "shutil.rmtree": "rmtree",
    "subprocess.Popen": "start",
    "import": "import",
}
CHANGES = r"^(write|rename|remove|mkdir|rmdir|truncate|rmtree) (?!/)"
"""The pattern of the operations that change something in the folder of the fault."""
HEX = re.compile(r"[0-9a-f]{32}|tmp\w{8}")


class Fault(NamedTuple):
    """What happens, and when.

    Attributes:
        folder: Names are relative to this folder, where they lie in it.
        pattern: Matches the operations that count, such as `rename checkpoints/best.ckpt`.
        nth: Counts them, from 0; -1 for none.
        action: The name of a signal, or of an error number such as ENOSPC, which lasts.
        to: Who gets the signal: `self`, `group`, `parent` or `others` of the group.
        size: For SIGXFSZ: the process ends in the first write beyond this byte of a file.
        twice: Whether the signal comes twice.
        passed_on: The number of processes, parent to child, that pass the fault on.
        log: A file that gets the operations that count.
        once: A file that keeps the fault from happening twice, in several processes.
    """

    folder: str
    pattern: str = CHANGES
    nth: int = -1
    action: str = "SIGKILL"
    to: str = "self"
    size: int = 0
    twice: bool = False
    passed_on: int = 0
    log: str = ""
    once: str = ""

    def pack(self) -> dict[str, str]:
        """The environment that carries the fault."""
        return {VARIABLE: json.dumps(self)}

    def act(self, path: object = None) -> None:
        """Send the signal, or raise the error of a file."""
        if self.action.startswith("E"):
            number = getattr(errno, self.action)
            raise OSError(number, os.strerror(number), path)
        if self.once:
            try:
                os.close(os.open(self.once, os.O_CREAT | os.O_EXCL))
            except FileExistsError:
                return
        if self.action == "SIGXFSZ":
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
            resource.setrlimit(resource.RLIMIT_FSIZE, (self.size, resource.RLIM_INFINITY))
            signal.signal(signal.SIGXFSZ, signal.SIG_DFL)  # Python ignores it
            return
        for _ in range(1 + self.twice):
            number = getattr(signal, self.action)
            if self.to == "group":
                os.killpg(0, number)
            for process in self._receivers():
                os.kill(process, number)

    def _receivers(self) -> set[int]:
        me = os.getpid()
        others = group(int(os.environ[COMMAND])) - {me}
        return {"self": {me}, "parent": {os.getppid()}, "others": others, "group": set()}[self.to]


def group(leader: int) -> set[int]:
    """The processes of a command that are alive; the ranks of a run have sessions of their own."""
    mark, alive = f"{COMMAND}={leader}".encode(), set()
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):  # one that has just ended
            state, _, member = path.read_text().rpartition(")")[2].split()[:3]
            ours = int(member) == leader or mark in (path.parent / "environ").read_bytes()
            if ours and state != "Z":
                alive.add(int(path.parent.name))
    return alive


def install() -> None:
    """Wait for the moment of the fault that the environment carries, if it is this process's."""
    if VARIABLE not in os.environ:
        return
    fault = Fault(*json.loads(os.environ.pop(VARIABLE)))
    if fault.passed_on:
        os.environ |= fault._replace(passed_on=fault.passed_on - 1).pack()
        return
    pattern, seen, busy = re.compile(fault.pattern), 0, False
    log = os.open(fault.log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC) if fault.log else None

    def hook(event: str, args: tuple[Any, ...]) -> None:
        nonlocal seen, busy
        if busy or (event != "open" and event not in NAMES):
            return
        busy = True
        try:
            done = operation(event, args, fault.folder)
            if not pattern.search(done):
                return
            if log is not None:
                os.write(log, f"{done}\n".encode())
            now = seen == fault.nth or (0 <= fault.nth < seen and fault.action.startswith("E"))
            seen += 1
            if now:
                fault.act(args[0])
        finally:
            busy = False

    sys.addaudithook(hook)


def operation(event: str, args: tuple[Any, ...], folder: str) -> str:
    """The name of an event and its file, as `rename checkpoints/best.ckpt..tmp`; "" for none."""
    if event in {"import", "subprocess.Popen"}:
        return f"{NAMES[event]} {args[0]}"
    if not isinstance(args[0], (str, bytes, os.PathLike)):
        return ""
    name, path = NAMES.get(event, ""), os.fsdecode(args[0])
    if event == "open":
        name = "write" if args[2] & (os.O_WRONLY | os.O_RDWR) else "read"
    elif isinstance(args[-1], int) and args[-1] >= 0 and event != "os.mkdir":  # of rmtree
        path = os.path.join(os.readlink(f"/proc/self/fd/{args[-1]}"), path)
    path = os.path.abspath(path)
    place = os.path.relpath(path, folder) if f"{path}/".startswith(f"{folder}/") else path
    return f"{name} {HEX.sub('', place)}"
