"""Compare trained models: `python report.py runs=runs/verbfinal`."""

from __future__ import annotations

import hydra
from omegaconf import DictConfig, OmegaConf

from simulmt.programs.command import job, run


@hydra.main(config_path="conf", config_name="report", version_base="1.3")
def main(config: DictConfig) -> None:
    """Compare all finished runs of a folder: a table, CSV files, curves, and a page of it all."""
    from simulmt.analysis.report import report  # noqa: PLC0415

    options = OmegaConf.to_container(config, resolve=True)
    assert isinstance(options, dict)
    with job():
        report({str(key): value for key, value in options.items()})


if __name__ == "__main__":
    run(main)
