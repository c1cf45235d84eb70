"""The loggers of metrics: a CSV file in every run directory; on demand, W&B or TensorBoard."""

import csv
from argparse import Namespace
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from pytorch_lightning.loggers import Logger
from pytorch_lightning.utilities import rank_zero_only

from simulmt.files.metrics import read_metrics
from simulmt.files.run_directory import METRICS
from simulmt.parts.configuration import Configuration
from simulmt.system.disk import write_rows, writing
from simulmt.system.ending import is_first
from simulmt.training.board import Board


class MetricsFile(Logger):
    """A CSV file with a row for each logged update; a resumed run appends to it.

    Args:
        folder: the run directory.
        resume_at: the update at which the run resumes; the file's rows from this update on are
            dropped. None for a new file.
    """

    name = version = ""  # of a folder

    def __init__(self, folder: Path, resume_at: int | None) -> None:
        super().__init__()
        self._path = folder / METRICS
        rows = read_metrics(folder) if resume_at and is_first() else []
        self._rows = [row for row in rows if int(row["step"]) < (resume_at or 0)]
        self._columns: list[str] = []  # of the file, once this object has written it

    @rank_zero_only
    def log_metrics(self, metrics: Mapping[str, float], step: int | None = None) -> None:
        """Merge the metrics into the row of their step, and write the row."""
        values = {name: f"{value:.6g}" for name, value in metrics.items() if name != "epoch"}
        row = {"step": str(step), **values}
        if self._rows and int(self._rows[-1]["step"]) == step:
            self._rows[-1].update(row)
        else:
            self._rows.append(row)
            if row.keys() <= set(self._columns):  # appending takes as long for the last row
                with writing(self._path), self._path.open("a", newline="") as file:
                    csv.DictWriter(file, self._columns, lineterminator="\n").writerow(row)
                return
        self._columns = [*dict.fromkeys(name for row in self._rows for name in row)]
        write_rows(self._rows, self._path)

    @rank_zero_only
    def log_hyperparams(
        self, params: dict[str, object] | Namespace, *_: object, **__: object
    ) -> None:
        """Do nothing: the run directory holds the resolved configuration already."""


@contextmanager
def open_loggers(
    extra: Logger | partial[Logger] | None,
    folder: Path,
    resume_at: int | None,
    config: Configuration,
) -> Iterator[list[Logger]]:
    """Open the CSV file and, on the first process, another logger; close both in any case.

    Args:
        extra: the other logger, or what makes it from the arguments that follow.
        folder: the run directory.
        resume_at: the update at which the run resumes; None for a new run.
        config: the configuration of the run.
    """
    loggers: list[Logger] = [MetricsFile(folder, resume_at)]
    if extra and is_first():
        made = extra(folder, resume_at, config) if isinstance(extra, partial) else extra
        loggers.append(made)
    status = "failed"
    try:
        yield loggers
        status = "success"
    finally:
        for logger in loggers:
            logger.finalize(status)
        for board in boards(loggers):
            board.close(failed=status == "failed")


def boards(loggers: Iterable[Logger]) -> list[Board]:
    """Return the loggers that also show tables and pictures."""
    return [logger for logger in loggers if isinstance(logger, Board)]
