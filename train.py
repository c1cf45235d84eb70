"""Train a simultaneous translation model: `python train.py mechanism=mma_il lambda=0.2`."""

from __future__ import annotations

from simulmt import ending

if __name__ == "__main__":
    ending.begin()  # at once: the other imports may take a minute

from pathlib import Path

import hydra
from hydra.conf import HydraConf
from hydra.core.hydra_config import HydraConfig
from hydra.types import RunMode
from omegaconf import DictConfig, OmegaConf

from simulmt.programs.command import job, run
from simulmt.programs.plain import hydra_record
from simulmt.training.run_name import run_name, within

OmegaConf.register_new_resolver("run_name", run_name, replace=True)
OmegaConf.register_new_resolver("within", within, replace=True)


@hydra.main(config_path="conf", config_name="train", version_base="1.3")
def main(config: DictConfig) -> float | None:
    """Train, test, and write everything into the run directory."""
    chosen = HydraConfig.get()
    folder, record = chosen.runtime.output_dir, hydra_record(config)
    if chosen.mode == RunMode.MULTIRUN:
        from simulmt.programs.sweep import sweep_run  # noqa: PLC0415

        waits = not _may_postpone(chosen)
        return sweep_run(config, Path(folder), chosen.job.num, record, waits=waits)
    from simulmt.programs.train import train  # noqa: PLC0415  (torch, only once there is work)

    with job():
        train(config, folder, record)
    return None


def _may_postpone(chosen: HydraConf) -> bool:
    """Return whether runs can wait for the end of the sweep, which then trains them right here.

    A search needs the value of a run at once, and a cluster trains on other machines.
    """
    parts = (chosen.sweeper._target_, chosen.launcher._target_)
    sweeper, launcher = (part.rpartition(".")[2] for part in parts)
    return sweeper == "BasicSweeper" and launcher in {"BasicLauncher", "JoblibLauncher"}


if __name__ == "__main__":
    run(main)
