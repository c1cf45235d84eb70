"""The papers' analyses of finished runs: `python analyse.py study=NAME runs=RUN_OR_FOLDER`."""

from __future__ import annotations

import hydra
from omegaconf import DictConfig

from simulmt.programs.command import job, run


@hydra.main(config_path="conf", config_name="analyse", version_base="1.3")
def main(config: DictConfig) -> None:
    """Make one study of one or several runs, and write its figure and its table."""
    from simulmt.programs.analyse import analyse  # noqa: PLC0415

    with job():
        analyse(config)


if __name__ == "__main__":
    run(main)
