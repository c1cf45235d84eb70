"""How long a word takes in `simulmt serve`, by the number of simultaneous sessions.

    python benchmarks/serve.py --checkpoint RUN [--sessions 50 100 200] [--seconds 30]

RUN is a run on the built-in data, such as that of `make run`. The server uses one core and one
thread, and the clients run in this process on another core of the same machine. Each session sends
the words of test sentences at `--rate` words per minute. The delay of a word is the time from
sending it until its event arrives with the written words; the end of a sentence counts as a word.
Each word, delay and translation is compared with the run's `instances.log`.
"""

from __future__ import annotations

import argparse
import asyncio
import dataclasses
import json
import os
import random
import re
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table
from websockets.asyncio.client import ClientConnection, connect
from websockets.typing import Origin

from simulmt.decoding.instance import Instance
from simulmt.files.instances import read_instances
from simulmt.files.run_directory import INSTANCES
from simulmt.system.disk import write_rows

_START = "from simulmt.programs.cli import main; main('serve')"


@dataclass
class Result:
    """The measurements of the clients under one load."""

    delays: list[float] = field(default_factory=list)
    """Delays of each word and each end of a sentence, in milliseconds."""
    wrong: int = 0
    """The wrong sentences: lost, late, mixed up or translated differently."""
    sentences: int = 0


@dataclass(frozen=True)
class Row:
    """The figures of one load; times in milliseconds."""

    sessions: int
    words_per_second: float
    p50: float
    p95: float
    most: float
    core_percent: int
    kib_per_session: int
    sentences: int
    wrong: int


class Server:
    """`simulmt serve` in a separate process, on one core.

    Args:
        checkpoint: the checkpoint to serve.
        sessions: the maximum number of sessions.
        core: the number of the core.
    """

    def __init__(self, checkpoint: Path, sessions: int, core: int) -> None:
        words = [f"checkpoint={checkpoint}", "port=0", f"sessions={sessions}"]
        self.process = subprocess.Popen(
            [sys.executable, "-c", _START, *words],
            stdout=subprocess.PIPE,
            text=True,
            env=os.environ | {"OMP_NUM_THREADS": "1"},
        )
        os.sched_setaffinity(self.process.pid, {core})
        assert self.process.stdout is not None
        with self.process.stdout as log:
            found = re.search(r"http://\S+/", log.readline())
            self._drain = subprocess.Popen(["cat"], stdin=log, stdout=subprocess.DEVNULL)
        assert found, "the server has not started"
        self.url = found[0]

    def __enter__(self) -> Server:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.terminate()
        self.process.wait(30)
        self._drain.wait(30)

    def memory(self) -> int:
        """Return the resident memory, in bytes."""
        status = Path(f"/proc/{self.process.pid}/status").read_text(encoding="ascii")
        return 1024 * int(re.findall(r"VmRSS:\s+(\d+)", status)[0])

    def processor_seconds(self) -> float:
        """Return the processor time used so far, in seconds."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


async def interpret(
    connection: ClientConnection, instances: Sequence[Instance], pause: float, end: float
) -> Result:
    """Send sentences until a time, and return the results."""
    result, sent = Result(), dict[tuple[int, int, bool], float]()
    expected = asyncio.Queue[Instance | None]()
    listening = asyncio.create_task(listen(connection, expected, sent, result))
    due = time.perf_counter() + random.random() * pause
    for number, instance in enumerate(instances, 1):
        if due > end:
            break
        expected.put_nowait(instance)
        words = instance.source.split()
        for place, word in enumerate(words, 1):
            await asyncio.sleep(max(0.0, due - time.perf_counter()))
            sent[number, place, False] = time.perf_counter()
            await connection.send(json.dumps({"type": "words", "text": word}))
            due += pause
        sent[number, len(words), True] = time.perf_counter()
        await connection.send(json.dumps({"type": "end"}))
    expected.put_nowait(None)
    await listening
    return result


async def listen(
    connection: ClientConnection,
    expected: asyncio.Queue[Instance | None],
    sent: dict[tuple[int, int, bool], float],
    result: Result,
) -> None:
    """Record the delay of each event, and compare each sentence with the expected one."""
    while instance := await expected.get():
        result.sentences += 1
        steps = list[dict[str, Any]]()
        while not (steps and steps[-1]["ended"]):
            step = json.loads(await asyncio.wait_for(connection.recv(), 60))
            ended = bool(step["ended"])
            passed = time.perf_counter() - sent[step["sentence"], step["read"], ended]
            result.delays.append(1000 * passed)
            steps.append(step)
        written = [word for step in steps for word in step["panes"][0]["words"]]
        seen = (
            " ".join(step["word"] for step in steps[:-1]),
            " ".join(word["text"] for word in written),
            tuple(word["delay"] for word in written),
        )
        result.wrong += seen != (instance.source, instance.prediction, instance.delays)


async def load(
    server: Server, instances: Sequence[Instance], sessions: int, rate: float, seconds: float
) -> tuple[Result, int]:
    """Return the results of a number of sessions, and the memory that they took, in bytes."""
    before, connections = server.memory(), list[ClientConnection]()
    address = server.url.replace("http", "ws") + "socket"
    for _ in range(sessions):
        connection = await connect(
            address, origin=Origin(server.url.rstrip("/")), compression=None, proxy=None
        ).__aenter__()
        await connection.recv()  # the greeting
        await connection.recv()  # the panes
        connections.append(connection)
    end, draw = time.perf_counter() + seconds, random.Random(0)
    chosen = [draw.sample(instances, len(instances)) for _ in connections]
    pairs = zip(connections, chosen, strict=True)
    results = await asyncio.gather(*(interpret(c, own, 60 / rate, end) for c, own in pairs))
    memory = server.memory() - before
    for connection in connections:
        await connection.close()
    total = Result()
    for result in results:
        total.delays += result.delays
        total.wrong += result.wrong
        total.sentences += result.sentences
    return total, memory


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--checkpoint", type=Path, required=True)
    parser.add_argument("--sessions", type=int, nargs="+", default=[1, 50, 100, 200])
    parser.add_argument("--seconds", type=float, default=30)
    parser.add_argument("--rate", type=float, default=150, help="words a minute, of each session")
    parser.add_argument("--output", type=Path, help="a CSV file for the figures")
    arguments = parser.parse_args()
    instances = read_instances(arguments.checkpoint / INSTANCES)
    cores = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {cores[-1]})
    rows = [measure(arguments, instances, sessions, cores[0]) for sessions in arguments.sessions]
    table = Table(*(field.name.replace("_", " ") for field in dataclasses.fields(Row)))
    for row in rows:
        table.add_row(*map(str, dataclasses.astuple(row)))
    Console(width=120).print(table)
    if arguments.output:
        write_rows([dataclasses.asdict(row) for row in rows], arguments.output)


def measure(
    arguments: argparse.Namespace, instances: Sequence[Instance], sessions: int, core: int
) -> Row:
    """Return the figures of a number of sessions, with a separate server."""
    with Server(arguments.checkpoint, sessions, core) as server:
        asyncio.run(load(server, instances[:3], 1, 6000, 1))  # what is loaded once
        used, started = server.processor_seconds(), time.perf_counter()
        result, memory = asyncio.run(
            load(server, instances, sessions, arguments.rate, arguments.seconds)
        )
        passed = time.perf_counter() - started
        share = (server.processor_seconds() - used) / passed
    p50, p95, most = np.quantile(result.delays, (0.5, 0.95, 1.0)).round(1).tolist()
    speed = round(len(result.delays) / passed, 1)
    each = round(memory / 1024 / sessions)
    core_share = round(100 * share)
    return Row(sessions, speed, p50, p95, most, core_share, each, result.sentences, result.wrong)


if __name__ == "__main__":
    main()
