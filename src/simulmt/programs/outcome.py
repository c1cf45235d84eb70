"""The outcomes of a sweep: a file in the directory of each run, a table of all, and the report."""

import csv
import dataclasses
import os
import secrets
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from hydra import compose
from hydra.experimental.callback import Callback
from omegaconf import DictConfig
from rich.table import Column, Table
from rich.text import Text

from simulmt.errors import UserError
from simulmt.programs.plain import plain
from simulmt.run_directory import OUTCOME, read_record, replacing, write_json

SWEEP_ID = "SIMULMT_SWEEP"
"""Environment variable with the id of the running sweep: the process that the user started, and a
token. All processes of the sweep inherit it."""


@dataclass(frozen=True)
class Outcome:
    """The outcome of a run.

    Attributes:
        outcome: The kind of outcome.
        reason: The reason, or where the run was resumed.
        tries: The number of starts.
        seconds: The duration of all tries.
        sweep: The sweep's id.
        number: The place of the run in the sweep.
        folder: The run directory, relative to the folder of the sweep.
    """

    outcome: Literal["trained", "resumed", "skipped", "failed"]
    reason: str = ""
    tries: int = 1
    seconds: float = 0.0
    sweep: str = ""
    number: int = 0
    folder: str = ""


def write_outcome(folder: Path, outcome: Outcome) -> None:
    """Write the outcome into the run directory."""
    write_json(folder / OUTCOME, outcome)


def read_outcome(folder: Path) -> Outcome | None:
    """Return the outcome in a run directory; None if the file is absent or damaged."""
    try:
        return read_record(folder / OUTCOME, Outcome)
    except UserError:
        return None


def find_outcomes(folder: Path, sweep: str) -> list[Outcome]:
    """Return the outcomes of one sweep below a folder, in the order of the sweep."""
    outcomes = []
    for path in folder.rglob(OUTCOME):
        outcome = read_outcome(path.parent)
        if outcome and outcome.sweep == sweep:
            name = path.parent.relative_to(folder).as_posix()
            outcomes.append(dataclasses.replace(outcome, folder=name))
    return sorted(outcomes, key=lambda outcome: outcome.number)


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
        """Set the id of the sweep, by which its outcomes are found."""
        os.environ[SWEEP_ID] = f"{os.getpid()}-{secrets.token_hex(8)}"

    def on_multirun_end(self, config: DictConfig, **_: Any) -> None:
        """Compare all finished runs of the folder; print and write the outcome of each run.

        Raises:
            SystemExit: with 1, if a run of the sweep is not finished.
        """
        # seconds to import, and every run makes this object
        from simulmt.analysis.report import report  # noqa: PLC0415
        from simulmt.console import console  # noqa: PLC0415

        folder = Path(config.hydra.sweep.dir)
        outcomes = find_outcomes(folder, os.environ[SWEEP_ID])
        console.width = max(console.width, 0 if console.is_terminal else 140)
        try:
            report(plain(compose("report")) | {"runs": str(folder)})
        except UserError as error:  # nothing to compare is no failure of the sweep
            console.print(f"no report: {error}", markup=False, soft_wrap=True)
        console.print(outcome_table(outcomes))
        write_table(outcomes, folder / "sweep.csv")
        failed = sum(outcome.outcome == "failed" for outcome in outcomes)
        console.print(f"{len(outcomes)} runs, {failed} failed; written: {folder / 'sweep.csv'}")
        if failed or not outcomes:
            sys.exit(1)
