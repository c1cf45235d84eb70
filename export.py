"""Write a trained model as a folder to give away: `python export.py checkpoint=RUN to=FOLDER`."""

from __future__ import annotations

import hydra
from omegaconf import DictConfig

from simulmt.programs.command import job, run


@hydra.main(config_path="conf", config_name="export", version_base="1.3")
def main(config: DictConfig) -> None:
    """Write weights, configuration, subword model and a card with its scores."""
    from simulmt.programs.export import export  # noqa: PLC0415

    with job():
        export(config)


if __name__ == "__main__":
    run(main)
