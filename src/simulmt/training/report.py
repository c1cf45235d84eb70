"""The reports of a run: on the terminal, in its directory, in the loggers; first process only."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from pytorch_lightning.loggers import Logger
from pytorch_lightning.utilities import rank_zero_only

from simulmt.analysis import summary
from simulmt.attention import Mechanism
from simulmt.console import say
from simulmt.data.corpus import Corpus
from simulmt.data.subwords import Subwords
from simulmt.decoding.instance import Instance
from simulmt.models.model import Model
from simulmt.options import Config
from simulmt.run_directory import (
    CONFIG,
    MANIFEST,
    PICTURE,
    SCORES,
    TRAITS,
    Traits,
    read_columns,
    write_json,
)
from simulmt.scoring.scores import Scores
from simulmt.training.callbacks import flat
from simulmt.training.record import count_parameters
from simulmt.training.weights_and_biases import show_curve, show_picture, show_samples

SHOWN = 50
"""The number of test sentences in the logger's table."""


@rank_zero_only
def data(corpus: Corpus, subwords: Subwords, folder: Path) -> None:
    """Print the sizes of the data, the dropped pairs, and the run directory."""
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
    """Print the model's size, and a warning if nothing trains its latency."""
    say(f"{name} with {built.mechanism.name}: {count_parameters(built):,} parameters")
    if built.mechanism.learned and not latency_weight:
        say("lambda is 0: no loss but the likelihood trains when the model writes")


@rank_zero_only
def write_description(folder: Path, config: Config, manifest: Config, mechanism: Mechanism) -> None:
    """Write the configuration, the traits of the policy and the manifest of the data."""
    write_json(folder / CONFIG, config)
    traits = Traits(mechanism.learned, mechanism.offline, mechanism.dials)
    write_json(folder / TRAITS, traits)
    write_json(folder / MANIFEST, manifest)  # last: with this file the run has begun


@rank_zero_only
def log_results(
    loggers: Sequence[Logger],
    scores: Scores,
    instances: Sequence[Instance],
    folder: Path,
    step: int,
) -> None:
    """Log the test scores; on W&B also translations, a path and the curve of all validations."""
    values = {f"test/{name}": value for name, value in flat(scores).items()}
    for logger in loggers:
        logger.log_metrics(values, step)
    show_samples(loggers, "test/samples", instances[:SHOWN])
    show_picture(loggers, "test/path", folder / PICTURE)
    show_curve(loggers, "valid/curve", read_columns(folder, "valid/word/DAL", "valid/BLEU"))


@rank_zero_only
def write_test_scores(folder: Path, scores: Scores) -> None:
    """Write the scores: a run that has them is finished."""
    write_json(folder / SCORES, scores)
