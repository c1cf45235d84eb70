"""Train every mechanism on every model at tiny size and end in one table.

    python experiments/zoo/zoo.py [--mechanisms A,B] [--updates 1600] [--jobs N] ...

Started again, it goes on with the runs that are not finished.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import yaml  # type: ignore[import-untyped, unused-ignore]
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeElapsedColumn

from simulmt.analysis.grid import make_rows, make_table, write_files
from simulmt.attention.schedules import SCHEDULES
from simulmt.errors import UserError

ROOT = Path(__file__).resolve().parents[2]
MODELS = ("transformer", "rnmt_plus", "luong")
LAMBDA = 0.2
OF_MODEL = {name: ["optim.lr=4e-3"] for name in ("rnmt_plus", "luong")}  # slower to start
LOG = "output.log"


@dataclass(frozen=True)
class Pair:
    """A mechanism on a model, by the names of their files in `conf`."""

    model: str
    mechanism: str
    learned: bool

    @property
    def name(self) -> str:
        """Its directory, as seen from that of all runs."""
        return f"{self.model}/{self.mechanism}"


def overrides(pair: Pair, updates: int) -> list[str]:
    """All that `train.py` is told, besides where to write."""
    validations = next(n for n in (4, 3, 2, 1) if updates % n == 0)
    return [
        "data=verbfinal",
        f"model={pair.model}",
        f"mechanism={pair.mechanism}",
        *OF_MODEL.get(pair.model, []),
        *([f"lambda={LAMBDA}"] if pair.learned else []),
        f"objective.hold={updates * 2 // 5}",
        f"objective.warmup={updates // 5}",
        f"trainer.max_updates={updates}",
        f"trainer.validate_every={updates // validations}",
        "trainer.progress=false",
    ]


def make_grid(models: Sequence[str], mechanisms: Sequence[str] | None) -> list[Pair]:
    """Each mechanism, all of `conf/mechanism` unless named, on each model."""
    schedules = {
        path.stem: yaml.safe_load(path.read_text(encoding="utf-8"))["schedule"]
        for path in sorted((ROOT / "conf" / "mechanism").glob("*.yaml"))
    }
    chosen = [*schedules] if mechanisms is None else mechanisms
    known = sorted(path.stem for path in (ROOT / "conf" / "model").glob("*.yaml"))
    for kind, names, choices in (("model", models, known), ("mechanism", chosen, [*schedules])):
        if unknown := [name for name in names if name not in choices]:
            raise UserError(f"no {kind} {', '.join(unknown)}; choose from {', '.join(choices)}")
    return [Pair(o, e, SCHEDULES[schedules[e]].learned) for o in models for e in chosen]


def is_finished(folder: Path, wanted: Sequence[str]) -> bool:
    """Whether a run has its scores; refuse those of another training."""
    if not (folder / "test_scores.json").is_file():
        return False
    kept = folder / ".hydra" / "overrides.yaml"
    had = yaml.safe_load(kept.read_text(encoding="utf-8")) if kept.is_file() else []
    if changed := sorted({*wanted} ^ {*had}):
        raise UserError(
            f"{folder} holds a run with other settings ({', '.join(changed)}); remove it, or give "
            "another directory with --runs"
        )
    return True


def start(pair: Pair, runs: Path, updates: int) -> subprocess.Popen[bytes]:
    """A training on one thread, which writes all it says into a log in its directory."""
    folder = runs / pair.name
    folder.mkdir(parents=True, exist_ok=True)
    quoted = str(folder).replace("'", "\\'")
    command = [sys.executable, "train.py", *overrides(pair, updates), f"hydra.run.dir='{quoted}'"]
    one_thread = {**os.environ, "OMP_NUM_THREADS": "1"}
    with (folder / LOG).open("wb") as log:
        return subprocess.Popen(
            command,
            cwd=ROOT,
            env=one_thread,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
        )


def train_all(
    pairs: Sequence[Pair],
    jobs: int,
    begin: Callable[[Pair], subprocess.Popen[bytes]],
    watch: Callable[[list[str]], None],
    done: Callable[[Pair, int], None],
) -> None:
    """Train `jobs` pairs at a time; whatever ends this ends the trainings too.

    Args:
        pairs: what to train, in this order.
        jobs: processes at a time.
        begin: starts one.
        watch: is told the names of those in progress.
        done: is told a pair and its exit status.
    """
    waiting, running = [*pairs], dict[Pair, subprocess.Popen[bytes]]()
    try:
        while waiting or running:
            while waiting and len(running) < jobs:
                pair = waiting.pop(0)
                running[pair] = begin(pair)
            watch([pair.name for pair in running])
            time.sleep(0.2)
            for pair in [p for p, process in running.items() if process.poll() is not None]:
                done(pair, running.pop(pair).returncode)
    finally:
        for process in running.values():
            process.terminate()
        for process in running.values():
            try:
                process.wait(timeout=10)
            except subprocess.TimeoutExpired:
                process.kill()


def explain(status: int, name: str, log: Path) -> tuple[str, str] | None:
    """What else than `trained` came of a run that ended with this status, and why."""
    if status == 0:
        return None
    lines = [line for line in log.read_text("utf-8", "replace").splitlines() if line.strip()]
    errors = [line.removeprefix("error: ") for line in lines if line.startswith("error: ")]
    if status == 2 and errors:
        return "refused", errors[-1]
    last = lines[-1].strip() if lines else "no output"
    return "failed", f"exit status {status}: {last} (see {name}/{LOG})"


def train_missing(
    pairs: Sequence[Pair], runs: Path, updates: int, jobs: int, console: Console
) -> dict[str, tuple[str, str]]:
    """Train what is not finished; returns outcome and message of what could not be trained."""
    missing = [p for p in pairs if not is_finished(runs / p.name, overrides(p, updates))]
    if len(missing) < len(pairs):
        console.print(f"{len(pairs) - len(missing)} of {len(pairs)} runs are finished already")
    notes: dict[str, tuple[str, str]] = {}
    columns = (MofNCompleteColumn(), BarColumn(20), TimeElapsedColumn(), "{task.description}")
    with Progress(*columns, console=console, disable=not missing) as progress:
        task = progress.add_task("", total=len(pairs), completed=len(pairs) - len(missing))

        def done(pair: Pair, status: int) -> None:
            note = explain(status, pair.name, runs / pair.name / LOG)
            if note:
                notes[pair.name] = note
            progress.console.print(": ".join([pair.name, *(note or ["trained"])]), markup=False)
            progress.advance(task)

        def watch(names: list[str]) -> None:
            progress.update(task, description=", ".join(names))

        train_all(missing, jobs, lambda pair: start(pair, runs, updates), watch, done)
        watch([])
    return notes


def run(options: argparse.Namespace) -> int:
    """Train, print the table and write it down; the exit status."""
    pairs = make_grid(options.models, options.mechanisms)
    runs, updates = Path(options.runs).resolve(), options.updates
    if min(updates, options.jobs) < 1:
        raise UserError(f"--updates {updates} --jobs {options.jobs}: both must be at least 1")
    console = Console(highlight=False)
    console.width = max(console.width, 0 if console.is_terminal else 120)
    notes = train_missing(pairs, runs, updates, options.jobs, console)
    rows = make_rows([pair.name for pair in pairs], runs, notes)
    settings = (
        f"verbfinal, {updates:,} updates, lambda={LAMBDA} where the schedule is learned; latency "
        "in source words, speed in target subwords, one thread per run."
    )
    console.print(make_table(rows, settings))
    write_files(rows, runs, settings)
    console.print(f"written: {runs / 'zoo.csv'}, {runs / 'zoo.md'}", markup=False, soft_wrap=True)
    outcomes = [row["outcome"] for row in rows]
    return 0 if "trained" in outcomes and "failed" not in outcomes else 1


def parse(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])

    def names(text: str) -> list[str]:
        return text.split(",")

    add = parser.add_argument
    add("--models", type=names, default=MODELS, metavar="A,B", help=f"default {','.join(MODELS)}")
    add("--mechanisms", type=names, metavar="A,B", help="default all of conf/mechanism")
    add("--updates", type=int, default=1600, metavar="N", help="of each run, default %(default)s")
    add("--jobs", type=int, default=os.cpu_count() or 1, metavar="N", help="runs at a time")
    add("--runs", default="runs/zoo", metavar="DIR", help="default %(default)s")
    return parser.parse_args(arguments)


def main() -> int:
    """Run the program; what a user can put right is said in one line."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        return run(parse())
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("interrupted; the same command goes on with what is not finished", file=sys.stderr)
        return 130


if __name__ == "__main__":
    sys.exit(main())
