"""What a run reports: on the terminal, from the first process only, and into its directory."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any, TypeVar

from pytorch_lightning.loggers import Logger
from pytorch_lightning.utilities import rank_zero_only
from rich.console import Console
from rich.progress import track
from torch import nn

from simulmt.analysis.path import render_path
from simulmt.analysis.path_picture import draw_path
from simulmt.analysis.table import score_table
from simulmt.attention import Mechanism
from simulmt.data.corpus import Corpus, Split
from simulmt.data.subwords import Subwords
from simulmt.decoding.instance import Instance
from simulmt.objective import Objective
from simulmt.options import Config
from simulmt.run_directory import (
    CONFIG,
    INSTANCES,
    MANIFEST,
    PICTURE,
    SCORES,
    TRAITS,
    Traits,
    read_columns,
    write_json,
)
from simulmt.scoring.guards import residue
from simulmt.scoring.scores import Scores
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
    """Return the work to be decoded, with a progress bar over it on a terminal."""
    shown = is_first_process() and console.is_terminal
    return track(work, "decoding", console=console, disable=not shown, transient=True)


def is_first_process() -> bool:
    """Return whether this process is the one that prints and writes."""
    return bool(getattr(rank_zero_only, "rank", 0) == 0)


def busy(what: str) -> AbstractContextManager[Any]:
    """Return a context that shows a spinner on a terminal."""
    if is_first_process() and console.is_terminal:
        return console.status(what)
    return nullcontext()


@rank_zero_only
def data(corpus: Corpus, subwords: Subwords, folder: Path) -> None:
    """Print the sizes of the data, the dropped pairs, and the run directory."""
    sizes = ", ".join(f"{len(split):,} {name}" for name, split in corpus.splits.items())
    say(
        f"{corpus.name} {corpus.source_language}-{corpus.target_language}: {sizes} pairs, "
        f"{len(subwords):,} subwords"
    )
    for name, split in corpus.splits.items():
        dropped(name, split)
    say(f"run directory: {folder}")


def dropped(name: str, split: Split) -> None:
    """Print how many pairs of a split were left out, if any."""
    if any(split.dropped.values()):
        counts = ", ".join(f"{n} {why.replace('_', ' ')}" for why, n in split.dropped.items())
        say(f"  dropped from {name}: {counts}")


@rank_zero_only
def model(name: str, mechanism: Mechanism, objective: Objective, built: nn.Module) -> None:
    """Print the model's size, and whether its latency is trained."""
    say(f"{name} with {mechanism.name}: {count_parameters(built):,} parameters")
    if mechanism.learned and not objective.latency_weight:
        say("lambda is 0: nothing but the text tells the model when to write")


@rank_zero_only
def write_description(folder: Path, config: Config, manifest: Config, mechanism: Mechanism) -> None:
    """Write what is trained, on what data, and what kind of policy it is."""
    write_json(folder / CONFIG, config)
    traits = Traits(mechanism.learned, mechanism.offline, mechanism.dials)
    write_json(folder / TRAITS, traits)
    write_json(folder / MANIFEST, manifest)  # last: with it the run has begun


@rank_zero_only
def log_results(
    loggers: Sequence[Logger],
    scores: Scores,
    instances: Sequence[Instance],
    folder: Path,
    step: int,
) -> None:
    """Log the test scores, and to W&B the first translations, a path, and all validations."""
    values = {f"test/{name}": value for name, value in flat(scores).items()}
    for logger in loggers:
        logger.log_metrics(values, step)
    show_samples(loggers, "test/samples", instances[:SHOWN])
    show_picture(loggers, "test/path", folder / PICTURE)
    show_curve(loggers, "valid/curve", read_columns(folder, "valid/word/DAL", "valid/BLEU"))


@rank_zero_only
def results(
    name: str, scores: Scores, instances: Sequence[Instance], checkpoint: Path, folder: Path
) -> None:
    """Print the score table, residue in the text, one sentence as a path, and the files."""
    console.print(score_table({name: scores}))
    for warning in residue(instances):
        console.print(warning, markup=False, soft_wrap=True, style="yellow")
    sample = pick_sample(instances)
    console.print(render_path(sample, console.width))
    draw_path(sample, folder / PICTURE)
    say(f"checkpoint: {checkpoint}\nscores, {INSTANCES} and {PICTURE}: {folder}")


@rank_zero_only
def write_test_scores(folder: Path, scores: Scores) -> None:
    """Write the file that makes the run a finished one."""
    write_json(folder / SCORES, scores)


def computing(scores: Scores) -> None:
    """Print how long computing took, and what it adds to the latency if anything was written."""
    took, aware, decoding = scores.computing_ms, scores.computation_aware, scores.decoding
    if took is None:
        return
    text = f"computing for a source word: median {took.median:.1f} ms, 95% within {took.p95:.1f} ms"
    if aware is not None and decoding is not None:
        text += (
            f"; with it, at {decoding.word_ms} ms a word, AL is {aware.figures['AL'].form()} and "
            f"DAL {aware.figures['DAL'].form()} words"
        )
    say(text)


def pick_sample(instances: Sequence[Instance]) -> Instance:
    """Return the sentence with the longest wait, of those of middling length if there are any."""
    middling = [i for i in instances if i.delays and 8 <= i.source_length <= 12]
    return max(middling or instances, key=lambda i: (_longest_wait(i), -i.index))


def _longest_wait(instance: Instance) -> int:
    steps = zip((0, *instance.delays), instance.delays, strict=False)
    return max((after - before for before, after in steps), default=0)
