"""What W&B and TensorBoard have in common: both are opened, and show more than figures."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Protocol, TypeAlias

from pytorch_lightning.loggers import Logger

from simulmt.options import Config

Open: TypeAlias = Callable[[Path, Path, int | None, Config], Logger | None]
"""Opens a logger for a run directory, the folder that the run writes into until its first
validation, the update at which the run resumes (None for a new run), and a configuration; None
where there is no logger."""


class Board(Protocol):
    """Shows what is no figure of an update."""

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
