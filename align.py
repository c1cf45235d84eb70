"""Word alignments of a corpus: `python align.py source=FILE target=FILE` or `data=PRESET`."""

from __future__ import annotations

import hydra
from omegaconf import DictConfig

from simulmt.programs.command import job, run


@hydra.main(config_path="conf", config_name="align", version_base="1.3")
def main(config: DictConfig) -> None:
    """Align sentence pairs, and write their links."""
    from simulmt.programs.align import align  # noqa: PLC0415

    with job():
        align(config)


if __name__ == "__main__":
    run(main)
