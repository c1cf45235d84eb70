"""What W&B and TensorBoard share: tables and pictures besides metrics."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path

from simulmt.decoding.instance import Instance, texts_of


class Board(ABC):
    """A logger that also shows tables and pictures."""

    @abstractmethod
    def show_table(self, key: str, rows: Sequence[Sequence[str]], step: int) -> None:
        """Show a table of texts; the first row holds the names of the columns."""

    @abstractmethod
    def show_results(self, folder: Path, step: int) -> None:
        """Show the path of a sentence, and quality over latency of every validation.

        Args:
            folder: the run directory.
            step: the step of the test scores.
        """

    def show_samples(self, key: str, instances: Sequence[Instance], step: int) -> None:
        """Show a table of translations with their delays."""
        names = ("source", "reference", "translation", "delays")
        self.show_table(key, [names, *map(sample, instances)], step)

    def close(self, failed: bool) -> None:  # noqa: B027  (most have nothing to do)
        """End the run, after its test."""


def sample(instance: Instance) -> tuple[str, str, str, str]:
    """Return source, reference, translation and delays of a sentence."""
    delays = " ".join(map(str, instance.delays))
    return (*texts_of(instance), delays)
