"""TensorBoard: the event files of a run, and what they hold besides metrics.

Metrics have the steps and names that they have in `metrics.csv`.
"""

import re
from collections.abc import Sequence
from pathlib import Path

import tensorboard  # noqa: F401  (Lightning would miss it late)
from pytorch_lightning.loggers import TensorBoardLogger

from simulmt.files.metrics import read_columns
from simulmt.files.run_directory import PICTURE, TENSORBOARD
from simulmt.options import flat_options
from simulmt.parts.configuration import Configuration
from simulmt.training.board import Board

FINAL = ("test/BLEU", "test/chrF", "test/word/AL", "test/word/AP", "test/word/DAL")
"""The scores that TensorBoard shows beside the hyperparameters."""
_MARKDOWN = re.compile(r"[\\`*_{}\[\]<>()#+.!|~&$-]")


class TensorBoard(Board, TensorBoardLogger):
    """Writes event files into the run directory; a resumed run drops those of later updates."""

    def __init__(self, folder: Path, resume_at: int | None, config: Configuration) -> None:
        super().__init__(folder, name=TENSORBOARD, version="", purge_step=resume_at)
        self._config = config

    def show_table(self, key: str, rows: Sequence[Sequence[str]], step: int) -> None:
        """Show a table as text."""
        # with signs that neither Markdown nor HTML reads
        safe = [[_MARKDOWN.sub(lambda s: f"&#{ord(s[0])};", text) for text in row] for row in rows]
        table = [safe[0], ["---"] * len(safe[0]), *safe[1:]]
        self.experiment.add_text(key, "\n".join(f"| {' | '.join(row)} |" for row in table), step)

    def show_results(self, folder: Path, step: int) -> None:
        """Show a path and the curve of all validations as images; the options beside the scores."""
        # seconds to import
        from matplotlib.figure import Figure  # noqa: PLC0415
        from matplotlib.image import imread  # noqa: PLC0415

        writer = self.experiment
        writer.add_image("test/path", imread(folder / PICTURE), step, dataformats="HWC")
        points = read_columns(folder, "valid/word/DAL", "valid/BLEU")
        curve = Figure(figsize=(5.4, 4.0), layout="constrained")
        axes = curve.subplots()
        unit = "characters" if "source" in self._config.data.get("characters", ()) else "words"
        axes.set(xlabel=f"DAL (source {unit})", ylabel="BLEU", title="every validation, in order")
        axes.plot(*zip(*points, strict=True), marker="o")
        writer.add_figure("valid/curve", curve, step)
        config = flat_options(self._config.plain)
        options = {name: str(x) if isinstance(x, list) else x for name, x in config.items()}
        scores = read_columns(folder, *FINAL)[-1]
        self.log_hyperparams(options, dict(zip(FINAL, scores, strict=True)), step)
