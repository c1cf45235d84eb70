"""What a run says: to the terminal, from the first process only, and into its directory."""

from __future__ import annotations

import csv
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pytorch_lightning.loggers import Logger
from pytorch_lightning.utilities import rank_zero_only

from simulmt.analysis import summary
from simulmt.console import say
from simulmt.data.corpus import Corpus
from simulmt.data.subwords import Subwords
from simulmt.decoding.instance import Instance
from simulmt.models.model import Model
from simulmt.scoring.score import write_scores
from simulmt.training.callbacks import flat
from simulmt.training.record import count_parameters
from simulmt.training.weights_and_biases import show_curve, show_picture, show_samples

SHOWN = 50
"""Test sentences in the logger's table."""


@rank_zero_only
def data(corpus: Corpus, subwords: Subwords, folder: Path) -> None:
    """Say what there is to learn from, what was left out, and where the run is written."""
    sizes = ", ".join(f"{len(split):,} {name}" for name, split in corpus.splits.items())
    say(
        f"{corpus.name} {corpus.source_language}-{corpus.target_language}: {sizes} pairs, "
        f"{len(subwords):,} subwords"
    )
    for name, split in corpus.splits.items():
        summary.dropped(name, split)
    say(f"run directory: {folder}")


@rank_zero_only
def model(name: str, built: Model, latency_weight: float) -> None:
    """Say what is trained, and what is not."""
    say(f"{name} with {built.mechanism.name}: {count_parameters(built):,} parameters")
    if built.mechanism.learned and not latency_weight:
        say("lambda is 0: nothing but the text tells the model when to write")


@rank_zero_only
def write_description(
    folder: Path, config: Mapping[str, object], manifest: Mapping[str, object]
) -> None:
    """Keep what is trained, and on what, where a person and a report can read it.

    Hydra's file is that of the last command with the directory, whatever came of it.
    """
    for name, content in (("config.json", config), ("manifest.json", manifest)):
        text = json.dumps(content, indent=2, ensure_ascii=False)
        (folder / name).write_text(text + "\n", encoding="utf-8")


@rank_zero_only
def log_results(
    loggers: Sequence[Logger],
    scores: Mapping[str, Any],
    instances: Sequence[Instance],
    folder: Path,
    step: int,
) -> None:
    """Log the test scores, and to W&B the first translations, the path, the way there."""
    values = {f"test/{name}": value for name, value in flat(scores).items()}
    for logger in loggers:
        logger.log_metrics(values, step)
    show_samples(loggers, "test/samples", instances[:SHOWN])
    show_picture(loggers, "test/path", folder / "path.png")
    show_curve(loggers, "valid/curve", _validations(folder / "metrics.csv"))


def _validations(metrics: Path) -> list[tuple[float, float]]:
    """DAL and BLEU on the development set, in the order of training."""
    with metrics.open(newline="") as file:
        rows = [row for row in csv.DictReader(file) if row.get("valid/BLEU")]
    return [(float(row["valid/word/DAL"]), float(row["valid/BLEU"])) for row in rows]


@rank_zero_only
def write_test_scores(folder: Path, scores: dict[str, Any]) -> None:
    """Write the file that says that the run is finished."""
    write_scores(folder / "test_scores.json", scores)
