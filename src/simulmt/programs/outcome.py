"""What came of each run of a sweep: a small file in its directory, and a table of them all."""

from __future__ import annotations

import csv
import dataclasses
import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from rich.table import Column, Table
from rich.text import Text

CONFIG = Path(".hydra") / "config.yaml"
OUTCOME = "outcome.json"
SWEEP_ID = "SIMULMT_SWEEP"
"""Environment variable that names the running sweep, by the process that was typed and a token;
all its processes inherit it."""


@dataclass(frozen=True)
class Outcome:
    """What came of a run.

    Attributes:
        outcome: What happened.
        reason: Why, or how.
        tries: How often it was started.
        seconds: How long that took.
        sweep: Which sweep that was.
        number: Its place in the sweep.
        folder: Its directory, as seen from the folder of the sweep.
    """

    outcome: Literal["trained", "resumed", "skipped", "failed"]
    reason: str = ""
    tries: int = 1
    seconds: float = 0.0
    sweep: str = ""
    number: int = 0
    folder: str = ""


def write_outcome(folder: Path, outcome: Outcome) -> None:
    """Write it into the run directory."""
    unfinished = folder / f"{OUTCOME}.{os.getpid()}.tmp"  # several processes may all have failed
    text = json.dumps(dataclasses.asdict(outcome), indent=2, ensure_ascii=False)
    unfinished.write_text(text + "\n", encoding="utf-8")
    unfinished.replace(folder / OUTCOME)


def read_outcome(folder: Path) -> Outcome | None:
    """What the file says; None if there is none, or a damaged one."""
    try:
        return Outcome(**json.loads((folder / OUTCOME).read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError):
        return None


def find_outcomes(folder: Path, sweep: str) -> list[Outcome]:
    """Those of one sweep, in its order."""
    found = []
    for path in folder.rglob(OUTCOME):
        outcome = read_outcome(path.parent)
        if outcome and outcome.sweep == sweep:
            name = path.parent.relative_to(folder).as_posix()
            found.append(dataclasses.replace(outcome, folder=name))
    return sorted(found, key=lambda outcome: outcome.number)


def outcome_table(outcomes: Sequence[Outcome]) -> Table:
    """A row for each run."""
    table = Table(Column("run", overflow="fold"), "outcome", "reason")
    for each in outcomes:
        style = "red" if each.outcome == "failed" else None
        row = (Text(part) for part in (each.folder, each.outcome, each.reason))
        table.add_row(*row, style=style)
    return table


def write_table(outcomes: Sequence[Outcome], path: Path) -> None:
    """The same as CSV."""
    columns = ["run", "outcome", "reason", "tries", "seconds"]
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(columns)
        writer.writerows([o.folder, o.outcome, o.reason, o.tries, o.seconds] for o in outcomes)
