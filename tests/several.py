"""Runs of two processes as users start them: in one command, by torchrun, on two "machines"."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from small_runs import ROOT

DDP = ["trainer=ddp", "trainer.accelerator=cpu", "mechanism=mma_il", "lambda=0.2"]
SECONDS = 300
"""The most that a whole run may take here."""
_NOT_OURS = ("RANK", "LOCAL_RANK", "NODE_RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")


def commands(start: str) -> list[list[str]]:
    """What is typed on each machine."""
    torchrun = [sys.executable, "-m", "torch.distributed.run"]
    if start == "alone":
        return [[sys.executable, "train.py"]]
    if start == "torchrun":
        return [[*torchrun, "--standalone", "--nproc-per-node=2", "train.py"]]
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    torchrun += ["--nnodes=2", "--nproc-per-node=1", "--master-addr=127.0.0.1"]
    two = ["train.py", "trainer.nodes=2", "trainer.devices=1"]
    return [[*torchrun, f"--master-port={port}", f"--node-rank={node}", *two] for node in range(2)]


class Several:
    """The processes of a run of two ranks.

    Args:
        start: "alone", "torchrun" or "nodes".
        folder: the run directory; what the machines print goes beside it.
        overrides: the options of the run.
    """

    def __init__(self, start: str, folder: Path, overrides: Sequence[str]) -> None:
        self.folder, self.typed, self._outputs = folder, [], []
        kept = {name: value for name, value in os.environ.items() if name not in _NOT_OURS}
        kept |= {"OMP_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join(sys.path)}
        for node, command in enumerate(commands(start)):
            self._outputs.append(folder.with_name(f"{folder.name}.{node}"))
            line = [*command, *DDP, *overrides, f"hydra.run.dir={folder}"]
            with self._outputs[-1].open("w") as file:
                process = subprocess.Popen(
                    line, cwd=ROOT, env=kept, stdout=file, stderr=subprocess.STDOUT
                )
            self.typed.append(process)

    def wait(self) -> list[int]:
        """Wait for the end of the run; return the exit status on each machine."""
        return [process.wait(SECONDS) for process in self.typed]

    def until(self, rows: int) -> None:
        """Wait until the metrics have that many rows."""
        metrics, end = self.folder / "metrics.csv", time.monotonic() + SECONDS
        while not metrics.exists() or metrics.read_bytes().count(b"\n") <= rows:
            assert all(p.poll() is None for p in self.typed), self.said()
            assert time.monotonic() < end, self.said()
            time.sleep(0.05)

    def said(self) -> str:
        """What all machines have printed."""
        return "".join(output.read_text() for output in self._outputs)

    def errors(self) -> list[str]:
        """The lines by which the run says why it has ended."""
        return [line for line in self.said().splitlines() if line.startswith("error: ")]

    def __enter__(self) -> Several:
        return self

    def __exit__(self, *_: object) -> None:
        mark = f"hydra.run.dir={self.folder}".encode()
        for path in Path("/proc").glob("[0-9]*/cmdline"):
            with contextlib.suppress(OSError):  # it has ended, or is another user's
                if mark in path.read_bytes():
                    os.kill(int(path.parent.name), signal.SIGKILL)
        for process in self.typed:
            process.wait()
