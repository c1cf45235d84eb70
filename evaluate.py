"""Score a trained model again: `python evaluate.py checkpoint=RUN_OR_FILE split=test`."""

from __future__ import annotations

import sys
from tempfile import TemporaryDirectory

import hydra
from omegaconf import DictConfig, OmegaConf

from simulmt.programs.command import job, run


@hydra.main(config_path="conf", config_name="evaluate", version_base="1.3")
def main(config: DictConfig) -> None:
    """Decode a split with a checkpoint and write and print its scores."""
    from simulmt.programs.evaluate import evaluate  # noqa: PLC0415

    with job():
        evaluate(config)


def start() -> None:
    """Evaluate, with a folder in which Hydra keeps the settings of a multirun."""
    # a mechanism says which dials it has, so Hydra takes any
    sys.argv = [f"++{word}" if word.startswith("dial.") else word for word in sys.argv]
    with TemporaryDirectory() as scratch:
        OmegaConf.register_new_resolver("scratch", lambda: scratch)
        main()


if __name__ == "__main__":
    run(start)
