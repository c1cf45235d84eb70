"""Train a simultaneous translation model: `python train.py mechanism=mma_il lambda=0.2`."""

from __future__ import annotations

from pathlib import Path

import hydra
from hydra.core.hydra_config import HydraConfig
from hydra.types import RunMode
from omegaconf import DictConfig, OmegaConf

from simulmt.programs.command import job, run
from simulmt.training.run_name import run_name

OmegaConf.register_new_resolver("run_name", run_name, replace=True)


@hydra.main(config_path="conf", config_name="train", version_base="1.3")
def main(config: DictConfig) -> float | None:
    """Train, test, and write everything into the run directory."""
    chosen = HydraConfig.get()
    folder = chosen.runtime.output_dir
    if chosen.mode == RunMode.MULTIRUN:
        from simulmt.programs.sweep import sweep_run  # noqa: PLC0415

        return sweep_run(config, Path(folder), chosen.job.num)
    from simulmt.programs.train import train  # noqa: PLC0415  (torch, only once there is work)

    with job():
        train(config, folder)
    return None


if __name__ == "__main__":
    run(main)
