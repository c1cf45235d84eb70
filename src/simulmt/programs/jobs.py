"""The jobs of a sweep on a cluster: one that is lost, say cancelled, does not end the sweep."""

import os
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from hydra.core.hydra_config import HydraConfig
from hydra.core.utils import JobReturn, JobStatus
from hydra.experimental.callback import Callback
from omegaconf import DictConfig, open_dict

from simulmt.errors import UserError
from simulmt.programs.outcome import FAILED, SWEEP, Outcome, write_outcome

_LAUNCHERS = ("SlurmLauncher", "LocalLauncher")
"""Those of Hydra's plugin for submitit."""


def check_launcher(launcher: DictConfig) -> None:
    """Refuse several tasks for each job, which would train the same run."""
    for key in ("nodes", "tasks_per_node"):
        if _is_submitit(launcher) and launcher[key] != 1:
            raise UserError(
                f"hydra.launcher.{key} is {launcher[key]}, but a job of a sweep is one task on one "
                "machine: set it to 1. With trainer=ddp the task starts trainer.devices processes; "
                "for several machines submit each run with sbatch"
            )


class Jobs(Callback):
    """A callback that Hydra calls in the process that the user started, before it starts jobs."""

    def on_multirun_start(self, config: DictConfig, **_: Any) -> None:
        """Let a job without a result count as a failed run.

        Hydra's launcher would end the sweep with the first such job, and leave the others alone.
        """
        if not _is_submitit(config.hydra.launcher):
            return
        from submitit import AutoExecutor  # noqa: PLC0415  (an extra)

        submit = AutoExecutor.map_array

        def map_array(executor: Any, launcher: Any, *columns: Sequence[Any]) -> list[_Job]:
            jobs = submit(executor, launcher, *columns)
            runs = zip(jobs, columns[0], columns[2], strict=True)
            return [_Job(job, partial(_folder, launcher, *run), run[1]) for job, *run in runs]

        setattr(AutoExecutor, "map_array", map_array)  # noqa: B010  (a method)


class _Job:
    """A job of submitit that always has a result.

    Args:
        job: submitit's.
        folder: returns the run directory.
        number: the place of the run in the sweep.
    """

    def __init__(self, job: Any, folder: partial[Path], number: int) -> None:
        self._job, self._folder, self._number = job, folder, number

    def results(self) -> list[JobReturn]:
        """Wait for the end of the job; write the outcome of one that has left no result."""
        from submitit.core.utils import UncompletedJobError  # noqa: PLC0415  (an extra)

        try:
            found: list[JobReturn] = self._job.results()
        except UncompletedJobError:
            state = str(self._job.state).partition(" ")[0].lower()  # CANCELLED by USER
            reason = (
                f"job {self._job.job_id} has left no result ({state}): {self._job.paths.stderr}"
            )
            record = Path(os.environ[SWEEP], str(self._number))
            write_outcome(record, Outcome("failed", reason, 0, folder=str(self._folder())))
            return [JobReturn(status=JobStatus.COMPLETED, _return_value=FAILED)]
        return found


def _is_submitit(launcher: DictConfig) -> bool:
    return str(launcher._target_).rpartition(".")[2] in _LAUNCHERS


def _folder(launcher: Any, overrides: Sequence[str], number: int) -> Path:
    """Return the run directory of a job, as Hydra composes it in the job."""
    loader = launcher.hydra_context.config_loader
    config = loader.load_sweep_config(launcher.config, [*overrides])
    with open_dict(config.hydra.job):
        config.hydra.job.num = number
    HydraConfig.instance().set_config(config)
    return Path(config.hydra.sweep.dir, config.hydra.sweep.subdir).resolve()
