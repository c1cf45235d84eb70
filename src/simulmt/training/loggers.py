"""Where metrics go: always `metrics.csv`, and W&B or TensorBoard if asked for."""

from __future__ import annotations

import csv
import secrets
import warnings
from argparse import Namespace
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pytorch_lightning.loggers import Logger, TensorBoardLogger, WandbLogger
from pytorch_lightning.utilities import rank_zero_only

from simulmt.errors import UserError


class MetricsFile(Logger):
    """Appends one row per logged step to a CSV file, and goes on with it when a run resumes.

    Args:
        path: the file; rows beyond the step that a run resumes from are dropped.
        resume_at: the step resumed from, None for a fresh file.
    """

    def __init__(self, path: Path, resume_at: int | None) -> None:
        super().__init__()
        self.path = path
        self._rows: list[dict[str, Any]] = []
        if resume_at is not None and path.exists():
            with path.open(newline="") as file:
                self._rows = [r for r in csv.DictReader(file) if int(r["step"]) <= resume_at]

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
        if self._rows and int(self._rows[-1]["step"]) == step:
            self._rows[-1].update(values)
        else:
            self._rows.append({"step": step, **values})
        self.save()

    @rank_zero_only
    def log_hyperparams(self, params: dict[str, Any] | Namespace, *_: Any, **__: Any) -> None:
        """The run directory holds the resolved config already."""

    @rank_zero_only
    def save(self) -> None:
        """Write all rows under the columns seen so far."""
        columns = {"step": None} | {name: None for row in self._rows for name in row}
        with self.path.open("w", newline="") as file:
            writer = csv.DictWriter(file, [*columns], restval="")
            writer.writeheader()
            writer.writerows(self._rows)


def extra_logger(
    kind: str, folder: Path, run_name: str, config: dict[str, Any], **options: Any
) -> Logger | None:
    """The logger beside `metrics.csv`.

    Args:
        kind: "csv" for none, "wandb" or "tensorboard".
        folder: the run directory.
        run_name: what the dashboard calls the run.
        config: shown beside the run.
        options: `project`, `mode` ("online" or "offline") for W&B.

    Raises:
        UserError: an unknown kind, or a package that is not installed.
    """
    if kind == "csv":
        return None
    if kind == "tensorboard":
        try:
            return TensorBoardLogger(folder, name="tensorboard", version="")
        except ModuleNotFoundError:
            raise UserError(
                "logger=tensorboard needs the package tensorboard: "
                'pip install "simulmt[tensorboard]"'
            ) from None
    if kind == "wandb":
        return _wandb(folder, run_name, config, **options)
    raise UserError(f"logger.kind is {kind!r}; choose csv, wandb or tensorboard")


def _wandb(
    folder: Path, run_name: str, config: dict[str, Any], project: str, mode: str
) -> WandbLogger:
    """A W&B run that goes on offline if the server cannot be reached."""
    if mode not in ("online", "offline"):
        raise UserError(f"logger.mode is {mode!r}; choose online or offline")
    import wandb  # noqa: PLC0415  (seconds to import, and most runs do without)

    settings = wandb.Settings(init_timeout=30, silent=True)
    common: dict[str, Any] = {
        "project": project,
        "name": run_name,
        "id": _run_id(folder),
        "dir": folder,
        "config": config,
        "resume": "allow",
        "settings": settings,
    }
    try:
        run = wandb.init(mode="online" if mode == "online" else "offline", **common)
    except (wandb.Error, OSError) as error:
        warnings.warn(f"W&B cannot be reached ({error}); going on offline", stacklevel=2)
        run = wandb.init(mode="offline", **common)
    return WandbLogger(experiment=run)


def _run_id(folder: Path) -> str:
    """The W&B id of a run directory, kept in it so that a resumed run goes on as the same."""
    kept = folder / "wandb_id"
    if not kept.exists():
        kept.write_text(secrets.token_hex(4))
    return kept.read_text().strip()
