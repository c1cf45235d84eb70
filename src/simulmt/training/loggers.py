"""The loggers of metrics: a CSV file in every run directory; on demand, W&B or TensorBoard."""

import csv
from argparse import Namespace
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from pytorch_lightning.loggers import Logger, TensorBoardLogger, WandbLogger
from pytorch_lightning.utilities import rank_zero_only

from simulmt.console import say
from simulmt.decoding.instance import Instance
from simulmt.disk import writing
from simulmt.errors import UserError
from simulmt.metrics import read_metrics
from simulmt.options import Config, construct, pick
from simulmt.processes import is_first_process
from simulmt.run_directory import METRICS, replacing
from simulmt.training.board import Board, Open
from simulmt.training.tensorboard import TensorBoard, tensorboard
from simulmt.training.weights_and_biases import WeightsAndBiases, wandb


class MetricsFile(Logger):
    """A CSV file with a row for each logged update; a resumed run appends to it.

    Args:
        folder: the run directory.
        resume_at: the update at which the run resumes, from which on earlier rows are dropped;
            None for a new file.
    """

    def __init__(self, folder: Path, resume_at: int | None) -> None:
        super().__init__()
        self.folder = folder
        if (folder / METRICS).is_dir():
            raise UserError(
                f"{folder / METRICS} is a folder, and the metrics need its name: move it away"
            )
        rows = read_metrics(folder) if resume_at and is_first_process() else []
        self._rows = [row for row in rows if int(row["step"]) < (resume_at or 0)]
        self._columns = [*self._rows[0]] if self._rows else ["step"]
        self._in_file = False  # whether the file holds exactly these rows

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
        new = {name: None for row in self._rows for name in row if name not in self._columns}
        self._columns += new
        with (
            replacing(self.folder / METRICS) as unfinished,
            unfinished.open("w", newline="") as file,
        ):
            writer = csv.DictWriter(file, self._columns, restval="")
            writer.writeheader()
            writer.writerows(self._rows)
        self._in_file = True


def csv_only() -> Open:
    """`logger=csv`: no logger besides the CSV file."""
    return lambda folder, resume_at, config: None


LOGGERS: dict[str, Callable[..., Open]] = {
    "csv": csv_only,
    "tensorboard": tensorboard,
    "wandb": wandb,
}
BOARDS: dict[type[Logger], Callable[..., Board]] = {
    TensorBoardLogger: TensorBoard,
    WandbLogger: WeightsAndBiases,
}


def choose_logger(options: Config) -> Open:
    """Return a function that opens the logger of a `conf/logger` group."""
    rest = {name: value for name, value in options.items() if name != "kind"}
    make = pick(LOGGERS, options.get("kind"), "logger.kind")
    return construct(make, rest, "logger")


@contextmanager
def open_loggers(
    open_extra: Open, folder: Path, resume_at: int | None, config: Config
) -> Iterator[list[Logger]]:
    """Open the CSV file and, on the first process, the chosen logger; close both in any case."""
    loggers: list[Logger] = [MetricsFile(folder, resume_at)]
    if is_first_process():
        extra = open_extra(folder, resume_at, config)
        loggers += [extra] if extra else []
    status, code = "failed", 1
    try:
        yield loggers
        status, code = "success", 0
    finally:
        for logger in loggers:
            logger.finalize(status)
        if isinstance(loggers[-1], WandbLogger):  # or the next run would log into this one
            opened = loggers[-1].experiment
            opened.finish(exit_code=code)
            if opened.offline:
                say(f"not uploaded yet: wandb sync {Path(opened.dir).parent}")


def show_samples(
    loggers: Iterable[Logger], key: str, instances: Sequence[Instance], step: int
) -> None:
    """Show a table of translations with their delays, wherever tables can be shown."""
    columns = ["source", "reference", "translation", "delays"]
    for board in _boards(loggers):
        board.show_table(key, columns, [*map(sample, instances)], step)


def sample(instance: Instance) -> tuple[str, str, str, str]:
    """Return source, reference, translation and delays of a sentence."""
    delays = " ".join(map(str, instance.delays))
    return instance.source, instance.reference, instance.prediction, delays


def show_results(loggers: Iterable[Logger], folder: Path, step: int) -> None:
    """Show the path of a sentence and the curve of all validations, wherever pictures can be."""
    for board in _boards(loggers):
        board.show_results(folder, step)


def _boards(loggers: Iterable[Logger]) -> Iterator[Board]:
    for logger in loggers:
        if type(logger) in BOARDS:
            yield BOARDS[type(logger)](logger)
