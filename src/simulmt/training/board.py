"""What W&B and TensorBoard share: how a run opens them, and what they show besides metrics."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Protocol, TypeAlias

from pytorch_lightning.loggers import Logger

from simulmt.options import Config

Open: TypeAlias = Callable[[Path, int | None, Config], Logger | None]
"""Opens a logger, or returns None if there is none.

The arguments are the run directory, the update at which the run resumes (None for a new run), and
the configuration."""


class Board(Protocol):
    """Shows tables and pictures, beside the metrics."""

    def show_table(
        self, key: str, columns: Sequence[str], rows: Sequence[Sequence[str]], step: int
    ) -> None:
        """Show a table of texts."""

    def show_results(self, folder: Path, step: int) -> None:
        """Show the path of a sentence, and quality over latency of every validation.

        Args:
            folder: the run directory.
            step: the step of the test scores.
        """
