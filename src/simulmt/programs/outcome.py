"""The outcomes of a sweep: a record of each run, a table of all, and the report.

The records lie in a folder of the sweep, not with the runs, which several sweeps may share.
"""

import atexit
import os
import secrets
import shutil
import sys
import traceback
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from hydra import compose
from hydra.experimental.callback import Callback
from omegaconf import DictConfig
from rich.table import Column, Table
from rich.text import Text

from simulmt.errors import UserError
from simulmt.programs.command import in_one_line
from simulmt.programs.plain import plain
from simulmt.system.console import console, say
from simulmt.system.disk import read_record, write_json, write_rows
from simulmt.system.ending import BAD_INPUT, CONTINUES, ENDS_WITH, handle_signals

SWEEP = "SIMULMT_SWEEP"
"""Environment variable with the folder of the running sweep, which holds a record of each run in a
file named by its number. All processes of the sweep inherit the variable."""
CONFIG_DIR = "SIMULMT_CONFIG_DIR"
"""Environment variable with the folder of `--config-dir`, for the same processes; may be empty."""
FAILED = -10_000.0
"""The value of a failed run for the sweeper: below every value that `selection` returns."""


@dataclass(frozen=True)
class Outcome:
    """The outcome of a run.

    Attributes:
        outcome: The kind of outcome.
        reason: The reason, or where the run was resumed.
        tries: The number of starts; 0 if the run was rejected.
        seconds: The duration of all tries.
        folder: The run directory.
        name: The options that differ from other runs of the sweep, for a line on the terminal.
        words: The command line of a postponed run.
    """

    outcome: Literal["trained", "resumed", "skipped", "busy", "failed"]
    reason: str = ""
    tries: int = 1
    seconds: float = 0.0
    folder: str = ""
    name: str = ""
    words: list[str] = field(default_factory=list)


def write_outcome(number: int, outcome: Outcome) -> None:
    """Write the record of a run of this sweep."""
    write_json(Path(os.environ[SWEEP]) / f"{number}.json", outcome)


def find_outcomes(records: Path) -> dict[int, Outcome]:
    """Return the outcomes of a sweep's runs, by number."""
    found = {int(path.stem): read_record(path, Outcome) for path in records.glob("*.json")}
    return dict(sorted(found.items()))


def write_table(outcomes: Sequence[Outcome], sweep: Path) -> Path:
    """Print a table with a row for each run, and write it as CSV; return the path of the file."""
    table, rows = Table(Column("run", overflow="fold"), "outcome", "reason"), []
    for each in outcomes:
        style = "red" if each.outcome == "failed" else None
        table.add_row(*map(Text, [each.name, each.outcome, each.reason]), style=style)
        row = {key: getattr(each, key) for key in ("outcome", "reason", "tries", "seconds")}
        rows.append({"run": os.path.relpath(each.folder, sweep), **row})
    console.print(table)
    return write_rows(rows, sweep / "sweep.csv")


class SweepEnd(Callback):
    """A callback that Hydra calls in the process that the user started, whatever the launcher."""

    def on_multirun_start(self, config: DictConfig, **_: Any) -> None:
        """Check that a search maximises, and choose the folder of the sweep's records."""
        direction = config.hydra.sweeper.get("direction", "maximize")
        if str(direction).rpartition(".")[2] != "maximize":
            with in_one_line():
                raise UserError(
                    f"hydra.sweeper.direction is {direction}, but runs return a value to maximise: "
                    "set hydra.sweeper.direction=maximize"
                )
        sources = config.hydra.runtime.config_sources
        own = [each.path for each in sources if each.provider == "command-line"]
        os.environ[CONFIG_DIR] = "".join(own)
        name = f".sweep-{secrets.token_hex(8)}"
        os.environ[SWEEP] = str(Path(config.hydra.sweep.dir).resolve() / name)
        os.environ[ENDS_WITH] = str(os.getpid())  # the workers of a launcher, too
        handle_signals(lambda: CONTINUES)
        atexit.register(shutil.rmtree, os.environ[SWEEP], ignore_errors=True)

    def on_multirun_end(self, config: DictConfig, **_: Any) -> None:
        """Finish what was postponed, compare all finished runs, and print and write the outcomes.

        Raises:
            SystemExit: if a run of the sweep is not finished, with 1; with 2 if all were rejected.
                Hydra would turn an exception of another kind into a warning.
        """
        try:
            with in_one_line():
                self._end(config)
        except Exception:
            traceback.print_exc()
            sys.exit(1)

    def _end(self, config: DictConfig) -> None:
        # seconds to import, and every run makes this object
        from simulmt.analysis.report import report  # noqa: PLC0415
        from simulmt.programs.sweep import finish_postponed  # noqa: PLC0415

        folder, records = Path(config.hydra.sweep.dir), Path(os.environ[SWEEP])
        finish_postponed()
        outcomes = [*find_outcomes(records).values()]
        if not outcomes:
            raise UserError("no run fits the sweep (a glob without a match?): correct its values")
        places = {Path(each.folder).parent for each in outcomes}  # one for each data set
        if all(place.resolve().is_relative_to(folder.resolve()) for place in places):
            places = {folder}
        for place in sorted(places):
            try:
                report(plain(compose("report")) | {"runs": str(place)})
            except UserError as error:  # such as no finished run, which does not fail the sweep
                say(f"no report: {error}")
        failed = [each for each in outcomes if each.outcome == "failed"]
        table = write_table(outcomes, min(places))
        say(f"{len(outcomes)} runs, {len(failed)} failed; written: {table}")
        if failed:
            rejected = len(failed) == len(outcomes) and not any(each.tries for each in failed)
            sys.exit(BAD_INPUT if rejected else 1)
