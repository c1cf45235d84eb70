"""Score a trained model again: `python evaluate.py checkpoint=RUN_OR_FILE split=test`."""

from __future__ import annotations

import hydra
from omegaconf import DictConfig

from simulmt.programs.command import job, run


@hydra.main(config_path="conf", config_name="evaluate", version_base="1.3")
def main(config: DictConfig) -> None:
    """Decode a split with a checkpoint and write and print its scores."""
    from simulmt.programs.evaluate import evaluate  # noqa: PLC0415

    with job():
        evaluate(config)


if __name__ == "__main__":
    run(main)
