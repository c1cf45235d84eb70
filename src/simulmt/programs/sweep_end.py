"""Names a sweep before it begins; after it, reports its folder and the outcome of each run."""

from __future__ import annotations

import os
import secrets
import sys
from pathlib import Path
from typing import Any

from hydra.experimental.callback import Callback
from omegaconf import DictConfig, OmegaConf

from simulmt.errors import UserError
from simulmt.programs.outcome import SWEEP_ID, find_outcomes, outcome_table, write_table


class SweepEnd(Callback):
    """A callback that Hydra calls in the process that the user started, whatever the launcher."""

    def on_multirun_start(self, config: DictConfig, **_: Any) -> None:
        """Set the id of the sweep, by which its outcomes are found."""
        os.environ[SWEEP_ID] = f"{os.getpid()}-{secrets.token_hex(8)}"

    def on_multirun_end(self, config: DictConfig, **_: Any) -> None:
        """Compare all finished runs of the folder; print and write the outcome of each run.

        Raises:
            SystemExit: with 1, if a run of the sweep is not finished.
        """
        from rich.console import Console  # noqa: PLC0415  (every run makes this object)

        from simulmt.analysis.report import report  # noqa: PLC0415  (seconds to import)

        folder = Path(config.hydra.sweep.dir)
        outcomes = find_outcomes(folder, os.environ[SWEEP_ID])
        console = Console(highlight=False)
        console.width = max(console.width, 0 if console.is_terminal else 140)
        try:
            report(report_options(config) | {"runs": str(folder)})
        except UserError as error:  # nothing to compare is no failure of the sweep
            console.print(f"no report: {error}", markup=False, soft_wrap=True)
        console.print(outcome_table(outcomes))
        write_table(outcomes, folder / "sweep.csv")
        failed = sum(outcome.outcome == "failed" for outcome in outcomes)
        console.print(f"{len(outcomes)} runs, {failed} failed; written: {folder / 'sweep.csv'}")
        if failed or not outcomes:
            sys.exit(1)


def report_options(config: DictConfig) -> dict[str, Any]:
    """Return the default options of `report.py`."""
    (home,) = [s.path for s in config.hydra.runtime.config_sources if s.provider == "main"]
    options = OmegaConf.to_container(OmegaConf.load(Path(home) / "report.yaml"))
    assert isinstance(options, dict)
    return {str(k): v for k, v in options.items() if k not in ("defaults", "hydra")}
