"""The processes of a run have the same configuration, and end as soon as they are told to."""

from collections.abc import Mapping, Sequence

import pytorch_lightning as pl

from simulmt.errors import UserError
from simulmt.options import Config, flat_options
from simulmt.system import ending
from simulmt.system.processes import gather


class OneRun(pl.Callback):
    """Rejects processes that have different configurations.

    Every process reads its own configuration. If these differed, the processes would silently add
    up gradients of different objectives.

    Args:
        config: the configuration of this process, and what else must be the same in all.
    """

    def __init__(self, config: Config) -> None:
        self._options = flat_options(config)

    def setup(self, trainer: pl.Trainer, pl_module: pl.LightningModule, stage: str) -> None:
        """Compare them."""
        refuse_differences(gather(self._options))

    def on_train_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """End on SIGTERM without the other processes, for which Lightning's handler would wait."""
        ending.handle_signals()


def refuse_differences(configurations: Sequence[Mapping[str, object]]) -> None:
    """Reject flat configurations, one for each rank, that differ.

    Raises:
        UserError: the configurations differ; raised on every rank, naming keys and values.
    """
    differences = []
    for key in dict.fromkeys(key for options in configurations for key in options):
        values = [options.get(key) for options in configurations]
        if any(value != values[0] for value in values):
            listed = ", ".join(f"{value!r} on rank {rank}" for rank, value in enumerate(values))
            differences.append(f"{key} is {listed}")
    if differences:
        raise UserError(
            "the processes of this run have different configurations: "
            f"{'; '.join(differences)}. Give all the same command, and leave conf/ alone while a "
            "run starts"
        )
