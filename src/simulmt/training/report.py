"""What a run says: to the terminal, from the first process only, and into its directory."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any, TypeVar

from pytorch_lightning.loggers import Logger
from pytorch_lightning.utilities import rank_zero_only
from rich.console import Console
from rich.progress import track

from simulmt.analysis.path import render_path
from simulmt.analysis.path_picture import draw_path
from simulmt.analysis.table import score_table
from simulmt.data.corpus import Corpus, Split
from simulmt.data.subwords import Subwords
from simulmt.decoding.instance import Instance
from simulmt.models.model import Model
from simulmt.scoring.guards import residue
from simulmt.scoring.score import write_scores
from simulmt.training.callbacks import flat
from simulmt.training.record import count_parameters
from simulmt.training.weights_and_biases import show_curve, show_picture, show_samples

T = TypeVar("T")
console = Console(highlight=False)
SHOWN = 50
"""Test sentences in the logger's table."""


@rank_zero_only
def say(text: str) -> None:
    """Print a line."""
    console.print(text, markup=False, soft_wrap=True)


def watch(work: list[T]) -> Iterable[T]:
    """A progress bar over what is decoded, on a terminal."""
    shown = is_first_process() and console.is_terminal
    return track(work, "decoding", console=console, disable=not shown, transient=True)


def is_first_process() -> bool:
    """Whether this process is the one that speaks and writes."""
    return bool(getattr(rank_zero_only, "rank", 0) == 0)


def busy(what: str) -> AbstractContextManager[Any]:
    """A spinner on a terminal while something takes its time."""
    if is_first_process() and console.is_terminal:
        return console.status(what)
    return nullcontext()


@rank_zero_only
def data(corpus: Corpus, subwords: Subwords, folder: Path) -> None:
    """Say what there is to learn from, what was left out, and where the run is written."""
    sizes = ", ".join(f"{len(split):,} {name}" for name, split in corpus.splits.items())
    say(
        f"{corpus.name} {corpus.source_language}-{corpus.target_language}: {sizes} pairs, "
        f"{len(subwords):,} subwords"
    )
    for name, split in corpus.splits.items():
        dropped(name, split)
    say(f"run directory: {folder}")


def dropped(name: str, split: Split) -> None:
    """Say how many pairs of a split were left out, if any."""
    if any(split.dropped.values()):
        counts = ", ".join(f"{n} {why.replace('_', ' ')}" for why, n in split.dropped.items())
        say(f"  dropped from {name}: {counts}")


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
def results(
    name: str,
    scores: Mapping[str, Any],
    instances: Sequence[Instance],
    checkpoint: Path,
    folder: Path,
) -> None:
    """The score table, what looks wrong in the text, one sentence as a path, and the files."""
    console.print(score_table({name: scores}))
    for warning in residue(instances):
        console.print(warning, markup=False, soft_wrap=True, style="yellow")
    sample = pick_sample(instances)
    console.print(render_path(sample, console.width))
    draw_path(sample, folder / "path.png")
    say(f"checkpoint: {checkpoint}\nscores, instances.log and path.png: {folder}")


@rank_zero_only
def write_test_scores(folder: Path, scores: dict[str, Any]) -> None:
    """Write the file that says that the run is finished."""
    write_scores(folder / "test_scores.json", scores)


@rank_zero_only
def computing(scores: Mapping[str, Any]) -> None:
    """Say how long the computing took, and what it adds to the latency if anything was written."""
    took = scores["computing_ms"]
    said = (
        f"computing for a source word: median {took['median']:.1f} ms, 95% within "
        f"{took['p95']:.1f} ms"
    )
    if aware := scores.get("computation_aware"):
        said += (
            f"; with it, at {scores['decoding']['word_ms']} ms a word, "
            f"AL is {aware['AL']:.2f} and DAL {aware['DAL']:.2f} words"
        )
    say(said)


def pick_sample(instances: Sequence[Instance]) -> Instance:
    """A sentence worth looking at: of those of middling length, the one that waits longest."""
    middling = [i for i in instances if i.delays and 8 <= i.source_length <= 12]
    return max(middling or instances, key=lambda i: (_longest_wait(i), -i.index))


def _longest_wait(instance: Instance) -> int:
    steps = zip((0, *instance.delays), instance.delays, strict=False)
    return max((after - before for before, after in steps), default=0)
