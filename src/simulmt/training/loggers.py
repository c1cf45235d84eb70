"""Where metrics go: always `metrics.csv`, and W&B or TensorBoard if asked for."""

from __future__ import annotations

import csv
import importlib.util
import secrets
import warnings
from argparse import Namespace
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pytorch_lightning.loggers import Logger, TensorBoardLogger, WandbLogger
from pytorch_lightning.utilities import rank_zero_only

from simulmt.errors import UserError
from simulmt.options import construct, pick
from simulmt.training import report


class MetricsFile(Logger):
    """One row per logged update in a CSV file, which goes on when a run resumes.

    Args:
        path: the file; rows from the update that a run resumes at are dropped.
        resume_at: the step resumed from, None for a fresh file.
    """

    def __init__(self, path: Path, resume_at: int | None) -> None:
        super().__init__()
        self.path = path
        self._rows: list[dict[str, Any]] = []
        if resume_at is not None and path.exists():
            text = path.read_text(encoding="utf-8")
            whole = text[: text.rfind("\n") + 1].splitlines()  # a kill may have cut the last row
            self._rows = [r for r in csv.DictReader(whole) if int(r["step"]) < resume_at]
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
            self._rows.append({"step": step, **values})
            (self._append if known else self._rewrite)()

    @rank_zero_only
    def log_hyperparams(self, params: dict[str, Any] | Namespace, *_: Any, **__: Any) -> None:
        """The run directory holds the resolved config already."""

    def _append(self) -> None:
        """Add the last row; cheap however long the run."""
        with self.path.open("a", newline="") as file:
            csv.DictWriter(file, self._columns, restval="").writerow(self._rows[-1])

    def _rewrite(self) -> None:
        """Write all rows under all columns, as validations and new columns ask for."""
        new = {name: None for row in self._rows for name in row if name not in self._columns}
        self._columns += new
        unfinished = self.path.with_suffix(".tmp")
        with unfinished.open("w", newline="") as file:
            writer = csv.DictWriter(file, self._columns, restval="")
            writer.writeheader()
            writer.writerows(self._rows)
        unfinished.replace(self.path)
        self._in_file = True


@dataclass(frozen=True)
class CsvOnly:
    """Nothing beside `metrics.csv`."""

    def open(self, folder: Path, run_name: str, config: dict[str, Any]) -> None:
        """No further logger."""


@dataclass(frozen=True)
class TensorBoard:
    """TensorBoard event files in the run directory."""

    def __post_init__(self) -> None:
        if importlib.util.find_spec("tensorboard") is None:
            raise UserError(
                'logger=tensorboard needs a package: pip install "simulmt[tensorboard]"'
            )

    def open(self, folder: Path, run_name: str, config: dict[str, Any]) -> Logger:
        """Event files in `tensorboard/`."""
        return TensorBoardLogger(folder, name="tensorboard", version="")


@dataclass(frozen=True)
class Wandb:
    """Weights & Biases; a server that cannot be reached means going on offline.

    A run keeps its id in its directory, so that it goes on as the same run when it resumes.
    """

    project: str
    mode: str
    """`online` or `offline`."""

    def __post_init__(self) -> None:
        if self.mode not in ("online", "offline"):
            raise UserError(f"logger.mode is {self.mode!r}; choose online or offline")

    def open(self, folder: Path, run_name: str, config: dict[str, Any]) -> Logger:
        """Start the run, or take it up again."""
        import wandb  # noqa: PLC0415  (seconds to import, and most runs do without)

        kept = folder / "wandb_id"
        if not kept.exists():
            kept.write_text(secrets.token_hex(4))
        common: dict[str, Any] = {
            "project": self.project,
            "name": run_name,
            "id": kept.read_text().strip(),
            "dir": folder,
            "config": config,
            "settings": wandb.Settings(init_timeout=30, silent=True),
        }
        if self.mode == "online":
            try:
                return WandbLogger(experiment=wandb.init(mode="online", resume="allow", **common))
            except (wandb.Error, OSError) as error:
                reason = str(error).splitlines()[0]
                warnings.warn(f"no W&B ({reason}); going on offline", stacklevel=2)
                wandb.teardown()
        return WandbLogger(experiment=wandb.init(mode="offline", **common))


LOGGERS: dict[str, type[CsvOnly | TensorBoard | Wandb]] = {
    "csv": CsvOnly,
    "tensorboard": TensorBoard,
    "wandb": Wandb,
}


def choose_logger(options: Mapping[str, Any]) -> CsvOnly | TensorBoard | Wandb:
    """The logger of a `conf/logger` group, not yet open."""
    rest = {name: value for name, value in options.items() if name != "kind"}
    make: Callable[..., CsvOnly | TensorBoard | Wandb] = pick(
        LOGGERS, options["kind"], "logger.kind"
    )
    return construct(make, rest, "logger")


@contextmanager
def open_loggers(
    chosen: CsvOnly | TensorBoard | Wandb,
    folder: Path,
    resume_at: int | None,
    config: Mapping[str, Any],
) -> Iterator[list[Logger]]:
    """`metrics.csv` and, on the first process, the chosen logger; closed whatever happens."""
    loggers: list[Logger] = [MetricsFile(folder / "metrics.csv", resume_at)]
    if report.is_first_process():
        name = f"{config['mechanism']['name']}-lambda-{config['lambda']}-seed-{config['seed']}"
        extra = chosen.open(folder, name, dict(config))
        loggers += [extra] if extra else []
    try:
        yield loggers
    finally:
        for logger in loggers:
            logger.finalize("success")
        if isinstance(loggers[-1], WandbLogger):  # or the next run would log into it
            loggers[-1].experiment.finish()
