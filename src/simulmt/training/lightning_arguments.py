"""The option `trainer.lightning`: arguments of Lightning's Trainer, passed as they are."""

from lightning_fabric.plugins.environments.lightning import LightningEnvironment
from lightning_fabric.utilities.exceptions import MisconfigurationException
from pytorch_lightning import Trainer

from simulmt.errors import UserError
from simulmt.options import Config

OWNED = {
    **{name: f"trainer.{name}" for name in ("accelerator", "devices", "strategy", "precision")},
    **dict.fromkeys(("max_steps", "max_epochs", "limit_train_batches"), "trainer.max_updates"),
    **dict.fromkeys(("val_check_interval", "check_val_every_n_epoch"), "trainer.validate_every"),
    **dict.fromkeys(("gradient_clip_val", "gradient_clip_algorithm"), "trainer.clip"),
    "num_nodes": "trainer.nodes",
    "accumulate_grad_batches": "trainer.accumulate",
    "log_every_n_steps": "trainer.log_every",
    "enable_progress_bar": "trainer.progress",
    "enable_checkpointing": "trainer.average",
    "callbacks": "callbacks",
    "logger": "logger",
    "default_root_dir": "hydra.run.dir",
}
"""The arguments that options of simulmt set, with these options."""
FIXED: Config = {
    "num_sanity_val_steps": 0,
    "reload_dataloaders_every_n_epochs": 0,
    "use_distributed_sampler": False,
}
"""The arguments that nobody can choose."""


def check_arguments(arguments: Config) -> None:
    """Reject arguments that simulmt sets itself, or that Lightning rejects.

    Raises:
        UserError: names the argument, and the option to use instead if there is one.
    """
    for name in arguments:
        if name in OWNED:
            raise UserError(f"trainer.lightning.{name}: set {OWNED[name]} instead")
    alone: Config = {"accelerator": "cpu", "plugins": [LightningEnvironment()], "logger": False}
    try:
        Trainer(**alone, **FIXED, enable_checkpointing=True, **arguments)
    except (MisconfigurationException, TypeError, ValueError) as error:
        raise UserError(
            f"trainer.lightning: {' '.join(str(error).split())}; see docs/runs.md"
        ) from None
