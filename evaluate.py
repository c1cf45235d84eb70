"""Score a trained model again: `python evaluate.py checkpoint=RUN_OR_FILE split=test`."""

from __future__ import annotations

import sys

import hydra
from omegaconf import DictConfig

from simulmt.errors import UserError


@hydra.main(config_path="conf", config_name="evaluate", version_base="1.3")
def main(config: DictConfig) -> None:
    """Decode a split with a checkpoint and write and print its scores."""
    from simulmt.build import evaluate  # noqa: PLC0415

    try:
        evaluate(config)
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(2)


if __name__ == "__main__":
    main()
