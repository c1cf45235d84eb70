"""Weights & Biases: how a run is named, and what it logs there besides its metrics.

Metrics are drawn over updates (`trainer/global_step`). The run directory also holds everything that
is logged to W&B.
"""

import os
import re
import secrets
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, Literal

import wandb
from pydantic import AfterValidator
from pytorch_lightning.loggers import WandbLogger

from simulmt.files.metrics import read_columns
from simulmt.files.run_directory import PICTURE, WANDB_ID
from simulmt.parts.configuration import WEIGHTS, Configuration
from simulmt.system.console import say
from simulmt.system.disk import replacing
from simulmt.training.board import Board

UPDATES = "trainer/global_step"
"""The x axis of all curves."""
_PATIENCE = 300
"""Seconds to wait for the upload at the end of a run."""


def _checked_name(project: str) -> str:
    if not re.fullmatch(r"[^/\\#?%:]{1,128}", project):
        raise ValueError("it must be 1 to 128 characters, none of /\\#?%:; a team is the entity")
    return project


class WeightsAndBiases(Board, WandbLogger):
    """A run in W&B, which continues offline if the server cannot be reached.

    The run keeps its id in its directory, so that a resumed run continues it in W&B. Runs are
    grouped by mechanism and named by what sets their latency.
    """

    def __init__(
        self,
        folder: Path,
        resume_at: int | None,
        config: Configuration,
        *,
        project: Annotated[str, AfterValidator(_checked_name)],
        entity: str | None = None,
        mode: Literal["online", "offline", "disabled"],
    ) -> None:
        start = partial(
            wandb.init,
            project=project,
            entity=entity,
            name=wandb_name(config),
            group=config.mechanism["name"],
            job_type="train",
            tags=[config.data["name"], config.model["name"]],
            id=_run_id(folder / WANDB_ID),
            dir=folder,
            config=dict(config.plain),
            settings=wandb.Settings(
                init_timeout=30, finish_timeout=_PATIENCE, finish_timeout_raises=True, silent=True
            ),
        )
        why = ""
        try:
            if mode == "online":
                wandb.setup(wandb.Settings(silent=True))  # or it waits for a login at a terminal
            run = start(mode=mode, resume="allow" if mode == "online" else None)
        except (wandb.Error, OSError) as error:
            why = f" ({str(error).splitlines()[0]})"
            wandb.teardown()
            run = start(mode="offline")
        if run.offline:
            parts = folder / "wandb" / f"offline-run-*-{run.id}"  # one for each start
            say(f"W&B logs offline{why}; upload the run with wandb sync {parts}")
        run.define_metric(UPDATES)
        run.define_metric("*", step_metric=UPDATES, step_sync=True)
        super().__init__(experiment=run)

    def show_table(self, key: str, rows: Sequence[Sequence[str]], step: int) -> None:
        """Log a table, at the step that W&B has."""
        self.log_text(key, columns=[*rows[0]], data=[[*row] for row in rows[1:]])

    def show_results(self, folder: Path, step: int) -> None:
        """Log the picture of a path as media, and BLEU over DAL of every validation as a chart."""
        self.log_image("test/path", images=[str(folder / PICTURE)])
        points = read_columns(folder, "valid/word/DAL", "valid/BLEU")
        table = wandb.Table(columns=["DAL", "BLEU"], data=[[*point] for point in points])
        chart = wandb.plot.scatter(table, "DAL", "BLEU", title="BLEU against DAL, every validation")
        self.experiment.log({"valid/curve": chart})

    def close(self, failed: bool) -> None:
        """Finish the run, or the next one of this process would log into it."""
        try:
            self.experiment.finish(exit_code=int(failed))
        except TimeoutError:
            rest = Path(self.experiment.dir).parent
            say(f"W&B has not received the end of this run: upload it with wandb sync {rest}")


def wandb_name(config: Configuration) -> str:
    """Return a run's name, by which runs of a mechanism differ: `mma_il lambda=0.2 seed=1`.

    The user's own name, if there is one, comes first.
    """
    mechanism, own = config.mechanism, [] if config.name is None else [f"{config.name}:"]
    pace = {name: mechanism[name] for name in ("k", "chunk", "window") if name in mechanism}
    weights = {name: weight for name in WEIGHTS if (weight := config.objective.get(name))}
    options = {**pace, **weights, "seed": config.seed}.items()
    return " ".join([*own, mechanism["name"], *(f"{name}={value}" for name, value in options)])


def _run_id(kept: Path) -> str:
    """Return the id from the agent of a W&B sweep, else from the run directory, else a new one."""
    run_id = os.environ.get("WANDB_RUN_ID", "") if "WANDB_SWEEP_ID" in os.environ else ""
    if not run_id and kept.is_file():
        run_id = re.sub(r"[^\w-]", "", kept.read_text(encoding="ascii", errors="ignore"))[:64]
    run_id = run_id or secrets.token_hex(4)
    with replacing(kept) as unfinished:
        unfinished.write_text(run_id)
    return run_id
