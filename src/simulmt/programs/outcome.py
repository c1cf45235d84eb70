"""The outcome of each run of a sweep: a file in its directory, and a table of all outcomes."""

from __future__ import annotations

import csv
import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from rich.table import Column, Table
from rich.text import Text

from simulmt.errors import UserError
from simulmt.run_directory import OUTCOME, read_record, write_json

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
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(columns)
        writer.writerows([o.folder, o.outcome, o.reason, o.tries, o.seconds] for o in outcomes)
