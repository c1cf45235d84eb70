"""The plan of a training run: its devices, its length, and when it validates and stops."""

import os
from dataclasses import dataclass
from math import gcd
from shutil import which
from typing import Annotated, Literal

import torch
from annotated_types import Ge

from simulmt.errors import UserError
from simulmt.options import Config, Count, Few, InOrder, Natural, Weight
from simulmt.system.cores import cores
from simulmt.training.lightning_arguments import check_arguments


@dataclass(frozen=True)
class TrainingPlan:
    """The options of `conf/trainer`, which explains each of them."""

    accelerator: Literal["cpu", "gpu", "auto"]
    devices: Few
    nodes: Few
    threads: Count | None
    strategy: Literal["auto", "ddp"]
    precision: Literal["32-true", "64-true", "bf16-mixed"]
    max_updates: Count
    validate_every: Count
    accumulate: Few
    clip: Annotated[float, Ge(0)]
    average: Count
    skip: Natural
    patience: Count | None
    dal_range: Annotated[tuple[Weight, Weight], InOrder] | None
    log_every: Count
    progress: bool
    compile: bool
    recompute: bool
    lightning: Config | None

    def __post_init__(self) -> None:
        if self.max_updates % self.validate_every:
            raise UserError(
                f"trainer.max_updates ({self.max_updates}) is not a multiple of "
                f"trainer.validate_every ({self.validate_every}), so the last updates would never "
                f"be validated: set validate_every={gcd(self.max_updates, self.validate_every)}"
            )
        if self.dal_range and self.average > 1:
            raise UserError(
                f"trainer.dal_range={[*self.dal_range]} with trainer.average={self.average}: set "
                "trainer.average=1, since a range selects one checkpoint"
            )
        if self.lightning:
            check_arguments(self.lightning)

    def check_machine(self, starts_ranks: bool) -> None:
        """Reject what this machine lacks: a GPU, processes or threads.

        Args:
            starts_ranks: True if this process starts the others, on its own cores.
        """
        if self.accelerator == "gpu" and not torch.cuda.is_available():
            raise UserError("trainer.accelerator=gpu, but no GPU was found; choose trainer=cpu")
        gpus = torch.cuda.device_count() if self.accelerator != "cpu" else 0
        usable = cores()
        devices = (gpus, "GPUs") if gpus else (max(usable, 2), "cores")
        threads = (self.threads or 1, usable, "cores")
        asked = {"threads": threads}
        if gpus or starts_ranks:
            asked["devices"] = (self.devices, *devices)
        for name, (chosen, most, what) in asked.items():
            if chosen > most:
                there = f"{most} {what} can be used here; use {most} or fewer"
                raise UserError(f"trainer.{name}={chosen}, but {there}")
        compiler = os.environ.get("CXX", "g++")
        if self.compile and not gpus and not which(compiler):
            raise UserError(
                f"trainer.compile=true needs a C++ compiler, but {compiler} is not installed: "
                "install it, name another in CXX, or set trainer.compile=false"
            )
