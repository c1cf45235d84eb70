"""How long a run trains, and on what devices: the options of `conf/trainer`."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch

from simulmt.errors import UserError
from simulmt.options import pick

_CHOICES = {
    "accelerator": ("cpu", "gpu", "auto"),
    "strategy": ("auto", "ddp"),
    "precision": ("32-true", "64-true", "bf16-mixed"),
}
_COUNTS = ("devices", "max_updates", "validate_every", "accumulate", "average", "log_every")


@dataclass(frozen=True)
class Plan:
    """The options of `conf/trainer`, which explains each of them."""

    accelerator: str
    devices: int
    strategy: str
    precision: str
    max_updates: int
    validate_every: int
    accumulate: int
    clip: float
    average: int
    patience: int | None
    dal_range: tuple[float, float] | None
    log_every: int
    progress: bool

    def __post_init__(self) -> None:
        for name, known in _CHOICES.items():
            pick(dict.fromkeys(known), getattr(self, name), f"trainer.{name}")
        for name in _COUNTS:
            if getattr(self, name) < 1:
                raise UserError(f"trainer.{name} is {getattr(self, name)}; it must be at least 1")
        if self.patience is not None and self.patience < 1:
            raise UserError(f"trainer.patience is {self.patience}; at least 1, or null for no end")
        if not 0 <= self.clip < math.inf:
            raise UserError(f"trainer.clip is {self.clip}; a norm, or 0 for none")
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
                f"trainer.devices is {self.devices}, this machine has GPUs: {gpus}; choose as many "
                "at the most, or trainer.accelerator=cpu"
            )
