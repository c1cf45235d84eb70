"""What a user sees of a training run: a progress bar on a terminal, else lines.

A line appears for each validation and, where no bar is shown, for each minute between them. The
loss in a line is the mean since the line before. The lines go to standard output and into the log
of the run.
"""

import logging
import time
from collections.abc import Mapping
from dataclasses import dataclass

import pytorch_lightning as pl
from pytorch_lightning.callbacks import Checkpoint, RichProgressBar
from rich.progress import BarColumn, ProgressColumn
from torch import Tensor

from simulmt.system.console import EVERY, say
from simulmt.system.ending import is_first
from simulmt.training.module import TranslationModule

_FIGURES = {  # of a line
    "train/loss": "loss {:.3f}",
    "valid/BLEU": "dev BLEU {:.1f}",
    "valid/word/DAL": "dev DAL {:.2f}",
    "train/lambda": "lambda {:.3g}",
    "train/tokens_per_s": "{:,.0f} tokens/s",
}
_OF_THE_BAR = {
    "train/loss": "loss {:.3f}",
    "train/latency": "latency {:.2f}",
    "train/tokens_per_s": "{:,.0f} tokens/s",
}
_log = logging.getLogger("simulmt")


class TrainingBar(RichProgressBar):
    """Lightning's progress bar with loss, expected latency and speed."""

    def get_metrics(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule
    ) -> dict[str, int | str | float | dict[str, float]]:
        """Return the number of updates and the figures, as one text of up to 60 columns."""
        done = f"{trainer.global_step}/{trainer.max_steps}"
        return {"update": ", ".join([done, *listed(trainer.progress_bar_metrics, _OF_THE_BAR)])}

    def configure_columns(self, trainer: pl.Trainer) -> list[ProgressColumn]:
        """Return a bar for the batches of an epoch; its figures follow."""
        return [BarColumn(bar_width=18)]


@dataclass(eq=False)
class ProgressLines(Checkpoint):
    """Prints the progress of the training.

    Lightning calls a `Checkpoint` last, so that the line of a validation follows the checkpoint.

    Args:
        each_minute: also print a line a minute between validations.
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
            metrics = trainer.callback_metrics.items()
            self._print(trainer, {n: value for n, value in metrics if not n.startswith("valid/")})

    def on_validation_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Print a line with the scores of the development set."""
        self._print(trainer, trainer.callback_metrics)

    def on_train_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Print the number of updates, and if the run stopped early or ended as planned."""
        done, planned = trainer.global_step, trainer.max_steps
        early = "stopped early" if done < planned else "as planned"
        print_line(f"trained for {done:,} of {planned:,} updates: {early}")

    def _print(self, trainer: pl.Trainer, metrics: Mapping[str, Tensor]) -> None:
        assert isinstance(trainer.lightning_module, TranslationModule)
        self._last = now = time.monotonic()
        done, planned = trainer.global_step, trainer.max_steps
        seconds = (now - self._began) / max(done - self._first, 1) * (planned - done)
        left = f", {_duration(seconds)} left" if done < planned else ""
        mean = trainer.lightning_module.mean_loss()
        figures = ", ".join(listed({**metrics, "train/loss": mean}, _FIGURES))
        print_line(f"update {done:,} of {planned:,}: {figures}{left}")


def print_line(line: str) -> None:
    """Print a line, and write it into the log."""
    say(line)
    if is_first():
        _log.info(line)


def listed(figures: Mapping[str, Tensor | float], forms: Mapping[str, str]) -> list[str]:
    """Return the available figures, each with its name or unit."""
    return [form.format(float(figures[n])) for n, form in forms.items() if n in figures]


def _duration(seconds: float) -> str:
    """Return a time such as `40 s`, `12 min` or `3 h 5 min`."""
    minutes = round(seconds / 60)
    if minutes < 2:
        return f"{seconds:.0f} s"
    return f"{minutes} min" if minutes < 90 else f"{minutes // 60} h {minutes % 60} min"
