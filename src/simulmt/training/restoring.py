"""The state of a training in a checkpoint, of which Lightning checks little before it is used."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytorch_lightning as pl
from torch import Tensor

from simulmt.errors import UserError
from simulmt.memory import ran_out


class _FirstUpdate(pl.Callback):
    """Checks what is restored; knows whether an update was made, and the state thus fits."""

    made = False

    def on_load_checkpoint(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, checkpoint: dict[str, Any]
    ) -> None:
        """Check the counts of updates and batches."""
        check_state(checkpoint["loops"], {"fit_loop": trainer.fit_loop.state_dict()})

    def on_train_batch_end(
        self, trainer: pl.Trainer, module: pl.LightningModule, loss: Any, batch: Any, number: int
    ) -> None:
        """Take note of an update."""
        self.made = self.made or (number + 1) % trainer.accumulate_grad_batches == 0


@contextmanager
def restoring(checkpoint: Path | None, trainer: pl.Trainer) -> Iterator[None]:
    """Name the checkpoint that a training resumes from in errors before its first update.

    Raises:
        UserError: the state in the checkpoint is not that of this training.
    """
    first = _FirstUpdate()
    trainer.callbacks.append(first)  # type: ignore[attr-defined]
    try:
        yield
    except Exception as error:  # of any type
        others = isinstance(error, UserError | OSError) or ran_out(error)
        if checkpoint is None or first.made or others:
            raise
        reason = " ".join(f"{type(error).__name__}: {error}".split())
        raise UserError(
            f"{checkpoint} cannot be resumed from ({reason:.200}): its state is damaged; give "
            "another checkpoint, or start from its weights with init_from"
        ) from error


def check_state(state: dict[str, Any], fresh: dict[str, Any]) -> None:
    """Refuse a state whose entries are not of the types of a fresh one.

    Raises:
        ValueError: the first such entry.
    """
    for name, value in fresh.items():
        if value is not None and not isinstance(state.get(name), type(value)):
            raise ValueError(f"{name} is {state.get(name)!r:.40}")
        if isinstance(value, dict):
            check_state(state[name], value)
    scores = {name: state[name] for name in state if name.endswith(("score", "value"))}
    for name, score in {**scores, **state.get("best_k_models", {})}.items():
        if score is not None and (not isinstance(score, Tensor) or score.numel() != 1):
            raise ValueError(f"the score of {name} is {score!r:.40}")
