"""Runs of two processes as users start them: in one command, by torchrun, on two "machines"."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from small_runs import ROOT

DDP = ["trainer=ddp", "trainer.accelerator=cpu", "mechanism=mma_il", "lambda=0.2"]
STARTS = ("alone", "torchrun", "nodes")
SECONDS = 300
"""The most that a whole run may take here."""
_NOT_OURS = ("RANK", "LOCAL_RANK", "NODE_RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


def torchrun(*options: object) -> list[str]:
    return [sys.executable, "-m", "torch.distributed.run", *map(str, options), "train.py"]


def commands(start: str) -> list[tuple[list[str], dict[str, str]]]:
    """What is typed on each machine, and the variables of its environment."""
    port = free_port()
    two = "trainer.nodes=2", "trainer.devices=1"
    if start == "alone":
        return [([sys.executable, "train.py"], {})]
    if start == "torchrun":
        return [(torchrun("--standalone", "--nproc-per-node=2"), {})]
    shared = ("--nnodes=2", "--nproc-per-node=1", "--master-addr=127.0.0.1")
    own = [("--master-port", port, "--node-rank", node) for node in range(2)]
    return [([*torchrun(*shared, *more), *two], {}) for more in own]


class Several:
    """The processes of a run of two ranks.

    Args:
        start: one of `STARTS`.
        folder: the run directory; what the machines print goes beside it.
        overrides: the options of the run.
    """

    def __init__(self, start: str, folder: Path, overrides: Sequence[str]) -> None:
        self.folder, self._outputs, self._typed = folder, [], []
        kept = {k: v for k, v in os.environ.items() if k not in _NOT_OURS}
        for node, (command, variables) in enumerate(commands(start)):
            output = folder.with_name(f"{folder.name}.{node}")
            with output.open("w") as file:
                process = subprocess.Popen(
                    [*command, *DDP, *overrides, f"hydra.run.dir={folder}"],
                    cwd=ROOT,
                    env={**kept, "OMP_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join(sys.path)}
                    | variables,
                    stdout=file,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                )
            self._outputs.append(output)
            self._typed.append(process)

    def ranks(self) -> dict[int, int]:
        """The process of each rank."""
        ranks = {process: _read(process)[1].get("RANK") for process in _with(self.folder)}
        return {int(rank): process for process, rank in ranks.items() if rank is not None}

    @property
    def agent(self) -> int:
        """The process that was typed on the first machine."""
        return self._typed[0].pid

    def wait(self, seconds: float = SECONDS) -> list[int]:
        """Wait until nothing of the run is left; return the exit status on each machine."""
        end = time.monotonic() + seconds
        for process in self._typed:
            process.wait(max(end - time.monotonic(), 0.1))
        while left := _with(self.folder):
            assert time.monotonic() < end, f"{left} are left after {seconds} s\n{self.said()}"
            time.sleep(0.05)
        return [process.returncode for process in self._typed]

    def until(self, rows: int) -> None:
        """Wait until the metrics have that many rows."""
        metrics, end = self.folder / "metrics.csv", time.monotonic() + SECONDS
        while not metrics.exists() or metrics.read_bytes().count(b"\n") <= rows:
            assert all(p.poll() is None for p in self._typed), self.said()
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
        for process in (*_with(self.folder), *(p.pid for p in self._typed if p.poll() is None)):
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
        for process in self._typed:
            process.wait()


def _with(folder: Path) -> list[int]:
    """The processes that train in a folder, and what has started them."""
    return [
        process
        for process in _all()
        if f"hydra.run.dir={folder}" in _read(process)[0].replace('"', "")
    ]


def _all() -> Iterator[int]:
    return (int(path.name) for path in Path("/proc").iterdir() if path.name.isdecimal())


def _read(process: int) -> tuple[str, dict[str, str]]:
    """The command line and the environment of a process."""
    try:
        command, environment = (
            Path(f"/proc/{process}/{name}").read_text(errors="replace").split("\0")
            for name in ("cmdline", "environ")
        )
    except OSError:  # it has ended, or is another user's
        return "", {}
    return " ".join(command), dict(v.split("=", 1) for v in environment if "=" in v)
