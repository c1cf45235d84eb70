"""The outcomes of a sweep: a record of each run, a table of all, and the report.

The records lie in a folder of the sweep, not with the runs, which several sweeps may share.
"""

import csv
import dataclasses
import os
import secrets
import shutil
import socket
import sys
import traceback
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from hydra import compose
from hydra.experimental.callback import Callback
from omegaconf import DictConfig
from rich.table import Column, Table
from rich.text import Text

from simulmt.disk import explain
from simulmt.errors import UserError
from simulmt.programs.plain import plain
from simulmt.programs.traces import remove_unused
from simulmt.run_directory import read_record, replacing, write_json

SWEEP = "SIMULMT_SWEEP"
"""Environment variable with the folder of the running sweep, which holds the record of each run, a
folder by its number. All processes of the sweep inherit it."""
FAILED = -10_000.0
"""The value of a failed run for the sweeper: below every value that `selection` returns."""
CHOSEN = "config.yaml"
"""In a record, the configuration of the run."""
OUTCOME = "outcome.json"
"""In a record, the outcome of the run, or the failure of its last try."""


@dataclass(frozen=True)
class Outcome:
    """The outcome of a run.

    Attributes:
        outcome: The kind of outcome.
        reason: The reason, or where the run was resumed.
        tries: The number of starts.
        seconds: The duration of all tries.
        folder: The run directory.
    """

    outcome: Literal["trained", "resumed", "skipped", "busy", "failed"]
    reason: str = ""
    tries: int = 1
    seconds: float = 0.0
    folder: str = ""


def write_outcome(record: Path, outcome: Outcome) -> None:
    """Write the outcome into a record."""
    record.mkdir(parents=True, exist_ok=True)
    write_json(record / OUTCOME, outcome)


def read_outcome(record: Path) -> Outcome | None:
    """Return the outcome in a record; None if the file is absent or damaged."""
    try:
        return read_record(record / OUTCOME, Outcome)
    except UserError:
        return None


def failure(error: Exception) -> Outcome:
    """Return the outcome of an exception; print the traceback unless a user can put it right."""
    if isinstance(error, UserError):
        return Outcome("failed", str(error))
    if isinstance(error, OSError):
        return Outcome("failed", explain(error))
    traceback.print_exception(error)
    return Outcome("failed", f"{type(error).__name__}: {error}".splitlines()[0])


def find_outcomes(sweep: Path) -> list[Outcome]:
    """Return the outcomes of a sweep's runs, by number."""
    lost = Outcome("failed", "its process has ended without a word")
    return [
        read_outcome(record) or dataclasses.replace(lost, folder=str(record))
        for record in sorted(sweep.glob("*"), key=lambda record: int(record.name))
    ]


def outcome_table(outcomes: Sequence[Outcome]) -> Table:
    """Return a table with a row for each run."""
    table = Table(Column("run", overflow="fold"), "outcome", "reason")
    for each in outcomes:
        style = "red" if each.outcome == "failed" else None
        row = (Text(part) for part in (each.folder, each.outcome, each.reason))
        table.add_row(*row, style=style)
    return table


def write_table(outcomes: Sequence[Outcome], path: Path) -> None:
    """Write a CSV file with a row for each run."""
    columns = ["run", "outcome", "reason", "tries", "seconds"]
    with (
        replacing(path) as unfinished,
        unfinished.open("w", encoding="utf-8", newline="") as file,
    ):
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(columns)
        writer.writerows([o.folder, o.outcome, o.reason, o.tries, o.seconds] for o in outcomes)


class SweepEnd(Callback):
    """A callback that Hydra calls in the process that the user started, whatever the launcher."""

    def on_multirun_start(self, config: DictConfig, **_: Any) -> None:
        """Choose the folder of the sweep's records."""
        name = f".sweep-{socket.gethostname()}-{os.getpid()}-{secrets.token_hex(4)}"
        os.environ[SWEEP] = str(Path(config.hydra.sweep.dir).resolve() / name)

    def on_multirun_end(self, config: DictConfig, **_: Any) -> None:
        """Finish what was postponed, compare all finished runs, and print and write the outcomes.

        Raises:
            SystemExit: with 1, if a run of the sweep is not finished.
        """
        # seconds to import, and every run makes this object
        from simulmt.analysis.report import report  # noqa: PLC0415
        from simulmt.console import console  # noqa: PLC0415
        from simulmt.programs.sweep import finish_postponed  # noqa: PLC0415

        folder, sweep = Path(config.hydra.sweep.dir), Path(os.environ[SWEEP])
        finish_postponed(sweep)
        found = find_outcomes(sweep)
        shutil.rmtree(sweep, ignore_errors=True)
        remove_unused([Path(outcome.folder) for outcome in found], folder.resolve())
        begun = any(Path(outcome.folder).is_dir() for outcome in found)
        outcomes = [
            dataclasses.replace(outcome, folder=os.path.relpath(outcome.folder, folder))
            for outcome in found
        ]
        try:
            report(plain(compose("report")) | {"runs": str(folder)})
        except UserError as error:  # nothing to compare is no failure of the sweep
            console.print(f"no report: {error}", markup=False, soft_wrap=True)
        console.print(outcome_table(outcomes))
        if begun:
            write_table(outcomes, folder / "sweep.csv")
        failed = sum(outcome.outcome == "failed" for outcome in outcomes)
        written = f"written: {folder / 'sweep.csv'}" if begun else "no run has begun"
        console.print(f"{len(outcomes)} runs, {failed} failed; {written}")
        if failed or not outcomes:
            sys.exit(1)
