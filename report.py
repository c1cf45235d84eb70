"""Compare trained models: `python report.py runs=runs/verbfinal`."""

from __future__ import annotations

from pathlib import Path

import hydra
from omegaconf import DictConfig

from simulmt.programs.command import job, run
from simulmt.programs.plain import plain


@hydra.main(config_path="conf", config_name="report", version_base="1.3")
def main(config: DictConfig) -> None:
    """Compare all finished runs of a folder: a table, CSV files, curves, and a page of it all."""
    from simulmt.analysis.report import report  # noqa: PLC0415

    with job():
        report(plain(config), Path(__file__).parent)


if __name__ == "__main__":
    run(main)
