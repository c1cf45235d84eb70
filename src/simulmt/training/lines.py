"""A line for each validation and, where no progress bar is shown, for each minute between them.

The lines go to standard output and into the log of the run.
"""

import logging
import time
from collections.abc import Mapping
from dataclasses import dataclass

import pytorch_lightning as pl
from torch import Tensor

from simulmt.system.console import EVERY, say
from simulmt.system.ending import is_first

_FIGURES = {
    "train/loss": "loss {:.3f}",
    "valid/BLEU": "dev BLEU {:.1f}",
    "valid/word/DAL": "dev DAL {:.2f}",
    "train/lambda": "lambda {:.3g}",
    "train/tokens_per_s": "{:,.0f} tokens/s",
}
_log = logging.getLogger("simulmt")


@dataclass(eq=False)
class ProgressLines(pl.Callback):
    """Prints the progress of the training.

    Args:
        each_minute: whether a line appears between validations that are more than a minute apart.
    """

    each_minute: bool

    def on_train_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Start the clock; a checkpoint is already restored."""
        self._began = self._last = time.monotonic()
        self._first = trainer.global_step
        if self._first:
            print_line(f"resumed at update {self._first:,} of {trainer.max_steps:,}")

    def on_train_batch_end(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, *_: object
    ) -> None:
        """Print a line if the last one is a minute old."""
        if self.each_minute and time.monotonic() - self._last > EVERY:
            self._tell(trainer, validated=False)

    def on_validation_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Print a line with the scores of the development set."""
        self._tell(trainer, validated=True)

    def on_train_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Say why the training has ended."""
        done, planned = trainer.global_step, trainer.max_steps
        early = f" of {planned:,} updates: the last validations brought no improvement"
        print_line(f"trained for {done:,}{early if done < planned else ' updates, as planned'}")

    def _tell(self, trainer: pl.Trainer, validated: bool) -> None:
        now = time.monotonic()
        self._last = now
        done, planned = trainer.global_step, trainer.max_steps
        seconds = (now - self._began) / max(done - self._first, 1) * (planned - done)
        left = f", {_duration(seconds)} left" if done < planned else ""
        figures = {
            name: value
            for name, value in trainer.callback_metrics.items()
            if validated or not name.startswith("valid/")
        }
        print_line(f"update {done:,} of {planned:,}: {', '.join(listed(figures))}{left}")


def print_line(line: str) -> None:
    """Print a line, and write it into the log."""
    say(line)
    if is_first():
        _log.info(line)


def listed(figures: Mapping[str, Tensor | float]) -> list[str]:
    """Return the available figures, each with its name or unit."""
    return [form.format(float(figures[n])) for n, form in _FIGURES.items() if n in figures]


def _duration(seconds: float) -> str:
    """Return a time such as `40 s`, `12 min` or `3 h 5 min`."""
    minutes = round(seconds / 60)
    if minutes < 2:
        return f"{seconds:.0f} s"
    return f"{minutes} min" if minutes < 90 else f"{minutes // 60} h {minutes % 60} min"
