"""Translate what is typed or piped in, while it comes: `python translate.py checkpoint=RUN`."""

from __future__ import annotations

import hydra
from omegaconf import DictConfig

from simulmt.programs.command import job, run


@hydra.main(config_path="conf", config_name="translate", version_base="1.3")
def main(config: DictConfig) -> None:
    """Translate standard input live, or a file in batches."""
    from simulmt.programs.translate import translate  # noqa: PLC0415

    with job():
        translate(config)


if __name__ == "__main__":
    run(main)
