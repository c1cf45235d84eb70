"""Checks before Hydra makes a folder or starts a job: of the name, and of a sweep's jobs."""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from hydra._internal.core_plugins.basic_sweeper import BasicSweeper
from hydra.core.global_hydra import GlobalHydra
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.errors import HydraException
from hydra.experimental.callback import Callback
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from simulmt.console import watch
from simulmt.ending import TORCHRUN
from simulmt.errors import UserError
from simulmt.options import FOLDER_NAME, is_folder_name
from simulmt.programs.command import end, why
from simulmt.programs.jobs import check_launcher
from simulmt.programs.plain import plain, plugins_of
from simulmt.programs.traces import expect

_LISTED = 3
"""The message names at most this many reasons, and this many refused runs for each."""


class Refusals(Callback):
    """A callback that Hydra calls in the process that the user started, before anything else."""

    def on_run_start(self, config: DictConfig, **_: Any) -> None:
        """Refuse a bad name."""
        with _refused():
            _check_name(config)
            expect(Path(config.hydra.run.dir))

    def on_multirun_start(self, config: DictConfig, **_: Any) -> None:
        """Refuse torchrun, a bad name, or a sweep with a run that cannot be trained."""
        with _refused():
            if TORCHRUN in os.environ:
                raise UserError(
                    "a sweep starts the processes of its runs itself: leave out torchrun, or -m"
                )
            _check_name(config)
            check_launcher(config.hydra.launcher)
            if config.hydra.sweeper._target_.endswith(f".{BasicSweeper.__name__}"):
                _check_jobs(config)
            expect(Path(config.hydra.sweep.dir))


@contextmanager
def _refused() -> Iterator[None]:
    """End the program on an error, where Hydra would print a warning and go on."""
    try:
        yield
    except (UserError, HydraException, OmegaConfBaseException) as error:
        end(why(error))


def _check_name(config: DictConfig) -> None:
    if config.name is not None and not is_folder_name(config.name):
        raise UserError(f"name is {config.name!r}; it must be {FOLDER_NAME}, or null")


def _check_jobs(config: DictConfig) -> None:
    """Refuse a sweep if one of its runs cannot be trained on any machine."""
    from simulmt.parts import load  # noqa: PLC0415  (seconds to import)
    from simulmt.programs.choices import check_choices  # noqa: PLC0415

    load(plugins_of(config))
    loader = GlobalHydra.instance().config_loader()
    jobs, names = _jobs(config), set()
    refused: dict[str, list[str]] = {}
    for job in watch(jobs, "checking the runs"):
        try:
            composed = loader.load_sweep_config(config, [*job])
            names.add(composed.name)
            keys = [str(key) for key in composed if key != "hydra"]
            check_choices(plain(OmegaConf.masked_copy(composed, keys)))
        except (UserError, HydraException, OmegaConfBaseException) as error:
            own = [word for word in job if any(word not in other for other in jobs)]
            refused.setdefault(why(error), []).append(" ".join(own) or "every run")
    if len(names) > 1:
        raise UserError("a sweep has one name, that of its folder: give name=NAME, or none")
    if refused:
        count = sum(map(len, refused.values()))
        listed = [f"{_some(named, ', ')}: {reason}" for reason, named in refused.items()]
        raise UserError(
            f"{count} of the {len(jobs)} runs of this sweep cannot be trained, so none was "
            "started. " + _some(listed, "; ")
        )


def _some(texts: Sequence[str], between: str) -> str:
    more = len(texts) - _LISTED
    return between.join(texts[:_LISTED]) + (f" and {more} more" if more > 0 else "")


def _jobs(config: DictConfig) -> list[Sequence[str]]:
    """Return the overrides of each run, as Hydra's own sweeper splits them."""
    swept = [f"{key}={values}" for key, values in (config.hydra.sweeper.params or {}).items()]
    parser = OverridesParser.create(config_loader=GlobalHydra.instance().config_loader())
    parsed = parser.parse_overrides([*swept, *config.hydra.overrides.task])
    return [job for batch in BasicSweeper.split_arguments(parsed, None) for job in batch]
