"""What W&B and TensorBoard share: they show more than metrics."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path


class Board(ABC):
    """A logger that also shows tables and pictures."""

    @abstractmethod
    def show_table(
        self, key: str, columns: Sequence[str], rows: Sequence[Sequence[str]], step: int
    ) -> None:
        """Show a table of texts."""

    @abstractmethod
    def show_results(self, folder: Path, step: int) -> None:
        """Show the path of a sentence, and quality over latency of every validation.

        Args:
            folder: the run directory.
            step: the step of the test scores.
        """

    def close(self, failed: bool) -> None:  # noqa: B027  (most have nothing to do)
        """End the run, after its test."""
