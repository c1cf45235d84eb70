"""Where metrics go: always into the run directory, and to W&B or TensorBoard on demand."""

from __future__ import annotations

import csv
import importlib.util
from argparse import Namespace
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from pytorch_lightning.loggers import Logger, TensorBoardLogger, WandbLogger
from pytorch_lightning.utilities import rank_zero_only

from simulmt.console import say
from simulmt.errors import UserError
from simulmt.options import Config, construct, pick
from simulmt.processes import is_first_process
from simulmt.run_directory import METRICS, TENSORBOARD, read_metrics, replacing
from simulmt.training.weights_and_biases import Wandb


class MetricsFile(Logger):
    """One row per logged update in a CSV file, which goes on when a run resumes.

    Args:
        folder: the run directory; rows from the update that a run resumes at are dropped.
        resume_at: the step resumed from, None for a fresh file.
    """

    def __init__(self, folder: Path, resume_at: int | None) -> None:
        super().__init__()
        self.path = folder / METRICS
        self._rows: list[dict[str, str]] = []
        if resume_at is not None:
            self._rows = [row for row in read_metrics(folder) if int(row["step"]) < resume_at]
        self._columns = [*self._rows[0]] if self._rows else ["step"]
        self._in_file = False  # whether the file holds these rows, and no others

    @property
    def name(self) -> str:
        """No folder of its own."""
        return ""

    @property
    def version(self) -> str:
        """No folder of its own."""
        return ""

    @rank_zero_only
    def log_metrics(self, metrics: Mapping[str, float], step: int | None = None) -> None:
        """Merge the metrics into the row of their step and write it down."""
        values = {name: f"{value:.6g}" for name, value in metrics.items() if name != "epoch"}
        known = self._in_file and values.keys() <= set(self._columns)
        if self._rows and int(self._rows[-1]["step"]) == step:
            self._rows[-1].update(values)
            self._rewrite()
        else:
            self._rows.append({"step": str(step), **values})
            (self._append if known else self._rewrite)()

    @rank_zero_only
    def log_hyperparams(self, params: dict[str, Any] | Namespace, *_: Any, **__: Any) -> None:
        """Nothing to do: the run directory holds the resolved configuration already."""

    def _append(self) -> None:
        """Add the last row; cheap however long the run."""
        with self.path.open("a", newline="") as file:
            csv.DictWriter(file, self._columns, restval="").writerow(self._rows[-1])

    def _rewrite(self) -> None:
        """Write all rows under all columns, for a validation or a new column."""
        new = {name: None for row in self._rows for name in row if name not in self._columns}
        self._columns += new
        with replacing(self.path) as unfinished, unfinished.open("w", newline="") as file:
            writer = csv.DictWriter(file, self._columns, restval="")
            writer.writeheader()
            writer.writerows(self._rows)
        self._in_file = True


@dataclass(frozen=True)
class CsvOnly:
    """No other logger than the CSV file."""

    def open(self, folder: Path, config: Config) -> None:
        """Return no further logger."""


@dataclass(frozen=True)
class TensorBoard:
    """TensorBoard event files in the run directory."""

    def __post_init__(self) -> None:
        if importlib.util.find_spec("tensorboard") is None:
            raise UserError(
                'logger=tensorboard needs a package: pip install "simulmt[tensorboard]"'
            )

    def open(self, folder: Path, config: Config) -> Logger:
        """Return the logger, which writes into a folder of its own."""
        return TensorBoardLogger(folder, name=TENSORBOARD, version="")


Choice: TypeAlias = CsvOnly | TensorBoard | Wandb
LOGGERS: dict[str, type[Choice]] = {
    "csv": CsvOnly,
    "tensorboard": TensorBoard,
    "wandb": Wandb,
}


def choose_logger(options: Config) -> Choice:
    """Return the logger of a `conf/logger` group, not yet open."""
    rest = {name: value for name, value in options.items() if name != "kind"}
    make: Callable[..., Choice] = pick(LOGGERS, options.get("kind"), "logger.kind")
    return construct(make, rest, "logger")


@contextmanager
def open_loggers(
    choice: Choice, folder: Path, resume_at: int | None, config: Config
) -> Iterator[list[Logger]]:
    """Open the CSV file and, on the first process, the other logger; close both in any case."""
    loggers: list[Logger] = [MetricsFile(folder, resume_at)]
    if is_first_process():
        extra = choice.open(folder, config)
        loggers += [extra] if extra else []
    status, code = "failed", 1
    try:
        yield loggers
        status, code = "success", 0
    finally:
        for logger in loggers:
            logger.finalize(status)
        if isinstance(loggers[-1], WandbLogger):  # or the next run would log into it
            opened = loggers[-1].experiment
            opened.finish(exit_code=code)
            if opened.offline:
                say(f"not uploaded yet: wandb sync {Path(opened.dir).parent}")
