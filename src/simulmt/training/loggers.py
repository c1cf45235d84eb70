"""The loggers of metrics: a CSV file in every run directory; on demand, W&B or TensorBoard."""

import csv
from argparse import Namespace
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import TypeAlias

from pytorch_lightning.loggers import Logger
from pytorch_lightning.utilities import rank_zero_only

from simulmt.decoding.instance import Instance
from simulmt.errors import UserError
from simulmt.files.metrics import read_metrics
from simulmt.files.run_directory import METRICS
from simulmt.options import Config, asked_of, check, pick
from simulmt.system.disk import replacing, writing
from simulmt.system.ending import is_first
from simulmt.training.board import Board
from simulmt.training.tensorboard import TensorBoard
from simulmt.training.weights_and_biases import WeightsAndBiases

Open: TypeAlias = Callable[[Path, int | None, Config], Logger]
"""Opens a logger.

The arguments are the run directory, the update at which the run resumes (None for a new run), and
the configuration."""
LOGGERS: dict[str, Callable[..., Logger] | None] = {
    "csv": None,
    "tensorboard": TensorBoard,
    "wandb": WeightsAndBiases,
}


class MetricsFile(Logger):
    """A CSV file with a row for each logged update; a resumed run appends to it.

    Args:
        folder: the run directory.
        resume_at: the update at which the run resumes, from which on earlier rows are dropped;
            None for a new file.
    """

    name = version = ""  # of a folder

    def __init__(self, folder: Path, resume_at: int | None) -> None:
        super().__init__()
        self.folder = folder
        rows = read_metrics(folder) if resume_at and is_first() else []
        self._rows = [row for row in rows if int(row["step"]) < (resume_at or 0)]
        self._columns: list[str] = []
        self._in_file = False  # whether the file holds exactly these rows

    @rank_zero_only
    def log_metrics(self, metrics: Mapping[str, float], step: int | None = None) -> None:
        """Merge the metrics into the row of their step, and write the row."""
        values = {name: f"{value:.6g}" for name, value in metrics.items() if name != "epoch"}
        known = self._in_file and values.keys() <= set(self._columns)
        if self._rows and int(self._rows[-1]["step"]) == step:
            self._rows[-1].update(values)
            self._rewrite()
        else:
            self._rows.append({"step": str(step), **values})
            (self._append if known else self._rewrite)()

    @rank_zero_only
    def log_hyperparams(
        self, params: dict[str, object] | Namespace, *_: object, **__: object
    ) -> None:
        """Do nothing: the run directory holds the resolved configuration already."""

    def _append(self) -> None:
        """Append the last row; its cost does not grow with the file."""
        path = self.folder / METRICS
        with writing(path), path.open("a", newline="") as file:
            csv.DictWriter(file, self._columns, restval="").writerow(self._rows[-1])

    def _rewrite(self) -> None:
        """Write all rows again: a row or the columns have changed."""
        self._columns = [*dict.fromkeys(name for row in self._rows for name in row)]
        with (
            replacing(self.folder / METRICS) as unfinished,
            unfinished.open("w", newline="") as file,
        ):
            writer = csv.DictWriter(file, self._columns, restval="")
            writer.writeheader()
            writer.writerows(self._rows)
        self._in_file = True


def choose_logger(options: Config) -> Open | None:
    """Return what opens the logger of a `conf/logger` group; None if the CSV file is all.

    Raises:
        UserError: an option is unknown, missing or out of range, or tensorboard is not installed.
    """
    make = pick(LOGGERS, options.get("kind"), "logger.kind")
    asked = asked_of(make, ["folder", "resume_at", "config"]) if make else {}
    chosen = check(options, {"kind": str, **asked}, "logger")
    if make is TensorBoard and find_spec("tensorboard") is None:
        raise UserError('logger=tensorboard needs a package: pip install "simulmt[tensorboard]"')
    return make and partial(make, **{name: chosen[name] for name in asked})


@contextmanager
def open_loggers(
    open_extra: Open | None, folder: Path, resume_at: int | None, config: Config
) -> Iterator[list[Logger]]:
    """Open the CSV file and, on the first process, the chosen logger; close both in any case."""
    loggers: list[Logger] = [MetricsFile(folder, resume_at)]
    if open_extra and is_first():
        loggers.append(open_extra(folder, resume_at, config))
    status = "failed"
    try:
        yield loggers
        status = "success"
    finally:
        for logger in loggers:
            logger.finalize(status)
            if isinstance(logger, Board):
                logger.close(failed=status == "failed")


def show_samples(
    loggers: Iterable[Logger], key: str, instances: Sequence[Instance], step: int
) -> None:
    """Show a table of translations with their delays, wherever tables can be shown."""
    columns = ["source", "reference", "translation", "delays"]
    for logger in loggers:
        if isinstance(logger, Board):
            logger.show_table(key, columns, [*map(sample, instances)], step)


def sample(instance: Instance) -> tuple[str, str, str, str]:
    """Return source, reference, translation and delays of a sentence."""
    delays = " ".join(map(str, instance.delays))
    return instance.source, instance.reference, instance.prediction, delays


def show_results(loggers: Iterable[Logger], folder: Path, step: int) -> None:
    """Show the path of a sentence and the curve of all validations, wherever pictures can be."""
    for logger in loggers:
        if isinstance(logger, Board):
            logger.show_results(folder, step)
