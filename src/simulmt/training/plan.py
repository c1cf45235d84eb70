"""The options of `conf/trainer`: the length of a training, and its devices."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated, Literal

import torch

from simulmt.errors import UserError
from simulmt.options import Count, Limit


@dataclass(frozen=True)
class Plan:
    """The options of `conf/trainer`, which explains each of them."""

    accelerator: Literal["cpu", "gpu", "auto"]
    devices: Count
    strategy: Literal["auto", "ddp"]
    precision: Literal["32-true", "64-true", "bf16-mixed"]
    max_updates: Count
    validate_every: Count
    accumulate: Count
    clip: Annotated[float, Limit("a finite norm, or 0 for none", lambda x: 0 <= x < math.inf)]
    average: Count
    patience: Count | None
    dal_range: tuple[float, float] | None
    log_every: Count
    progress: bool

    def __post_init__(self) -> None:
        if self.max_updates % self.validate_every:
            raise UserError(
                f"trainer.max_updates is {self.max_updates}, no multiple of trainer.validate_every "
                f"({self.validate_every}): the last updates would be lost; change one of them"
            )
        least, most = self.dal_range or (0.0, 0.0)
        if not -math.inf < least <= most < math.inf or (self.dal_range and self.average > 1):
            raise UserError(
                f"trainer.dal_range is {[least, most]} with trainer.average={self.average}; it "
                "runs from least to most and chooses one checkpoint: set average to 1"
            )
        if self.accelerator == "gpu" and not torch.cuda.is_available():
            raise UserError("trainer=gpu, but no GPU was found; choose trainer=cpu")
        if self.accelerator != "cpu" and 0 < (gpus := torch.cuda.device_count()) < self.devices:
            raise UserError(
                f"trainer.devices is {self.devices}, this machine has GPUs: {gpus}; choose at "
                "most as many, or trainer.accelerator=cpu"
            )
