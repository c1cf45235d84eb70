"""Around a sweep: its name before, and the table of outcomes and the report of its folder after."""

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
    """Called by Hydra; of a multirun only in the process that was typed, whatever the launcher."""

    def on_multirun_start(self, config: DictConfig, **_: Any) -> None:
        """Give the sweep a name, by which its outcomes are found."""
        os.environ[SWEEP_ID] = f"{os.getpid()}-{secrets.token_hex(8)}"

    def on_multirun_end(self, config: DictConfig, **_: Any) -> None:
        """Show and write what came of each run, and compare all finished ones of the folder.

        Raises:
            SystemExit: with 1, if a run is not finished.
        """
        from rich.console import Console  # noqa: PLC0415  (every run makes this object)

        folder = Path(config.hydra.sweep.dir)
        outcomes = find_outcomes(folder, os.environ[SWEEP_ID])
        console = Console(highlight=False)
        console.width = max(console.width, 0 if console.is_terminal else 140)
        _report(report_options(config) | {"runs": str(folder)}, console)
        console.print(outcome_table(outcomes))
        write_table(outcomes, folder / "sweep.csv")
        failed = sum(each.outcome == "failed" for each in outcomes)
        console.print(f"{len(outcomes)} runs, {failed} failed; written: {folder / 'sweep.csv'}")
        if failed or not outcomes:
            sys.exit(1)


def report_options(config: DictConfig) -> dict[str, Any]:
    """What `report.py` is told by default."""
    (home,) = [s.path for s in config.hydra.runtime.config_sources if s.provider == "main"]
    options = OmegaConf.to_container(OmegaConf.load(Path(home) / "report.yaml"))
    assert isinstance(options, dict)
    return {str(k): v for k, v in options.items() if k not in ("defaults", "hydra")}


def _report(options: dict[str, Any], console: Any) -> None:
    """Compare the runs; that there is nothing to compare is no failure of the sweep."""
    from simulmt.analysis.report import report  # noqa: PLC0415  (seconds to import)

    try:
        report(options)
    except UserError as error:
        console.print(f"no report: {error}", markup=False, soft_wrap=True)
