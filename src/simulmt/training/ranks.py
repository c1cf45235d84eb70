"""All processes of a run must have been told the same."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytorch_lightning as pl
from torch import distributed

from simulmt.errors import UserError
from simulmt.options import flat_options


class SameConfiguration(pl.Callback):
    """Compares the configurations of all processes before the first update.

    Every process reads its configuration by itself. With different ones they would still add up
    their gradients, without any error.

    Args:
        config: of this process.
    """

    def __init__(self, config: Mapping[str, Any]) -> None:
        self.options = flat_options(config)

    def setup(self, trainer: pl.Trainer, pl_module: pl.LightningModule, stage: str) -> None:
        """Gather and compare; the processes know one another by now, and nothing else is done."""
        if not (distributed.is_available() and distributed.is_initialized()):
            return
        everyone: list[dict[str, Any]] = [{} for _ in range(distributed.get_world_size())]
        distributed.all_gather_object(everyone, self.options)
        refuse_differences(everyone)


def refuse_differences(everyone: Sequence[Mapping[str, Any]]) -> None:
    """Compare the flat configurations of all ranks.

    Raises:
        UserError: they differ; raised on every rank, naming the keys and values.
    """
    keys = dict.fromkeys(key for options in everyone for key in options)
    differing = []
    for key in keys:
        values = [options.get(key) for options in everyone]
        if any(value != values[0] for value in values):
            said = ", ".join(f"{value!r} on rank {rank}" for rank, value in enumerate(values))
            differing.append(f"{key} is {said}")
    if differing:
        raise UserError(
            f"the processes of this run were given different configurations: {'; '.join(differing)}"
            ". Give all the same command, and leave conf/ alone while a run starts"
        )
