"""The summary of a decoded corpus that programs print: scores, warnings, a path."""

from collections.abc import Sequence
from pathlib import Path

from simulmt.analysis.figures.path import draw_path, render_path, typical_places
from simulmt.analysis.tables.terminal import score_table
from simulmt.data.corpus import Split
from simulmt.data.manifest import Manifest
from simulmt.decoding.instance import Instance
from simulmt.files.run_directory import INSTANCES, PICTURE
from simulmt.scoring.guards import residue, unspaced_sides
from simulmt.scoring.scores import Scores
from simulmt.system.console import console, say
from simulmt.system.ending import is_first


def print_dropped(name: str, split: Split) -> None:
    """Print the number of pairs that were left out of a split, if any."""
    if any(split.dropped.values()):
        counts = ", ".join(f"{n} {why.replace('_', ' ')}" for why, n in split.dropped.items())
        say(f"  dropped from {name}: {counts}")


def repeated(name: str, split: Split, described: Manifest) -> None:
    """Warn if a model was trained on, or selected by, the text that it is scored on.

    Args:
        name: the name of the text.
        split: the text.
        described: the manifest of the model's data.
    """
    for other in ("train", "valid"):
        there = described.splits.get(other)
        if other != name and there and there.source_sha256 == split.sha256[0]:
            say(f"warning: {name} has the same source text as {other}: its scores prove little")


def results(
    name: str, scores: Scores, instances: Sequence[Instance], checkpoint: Path, folder: Path
) -> None:
    """Print scores, warnings, the path of a typical sentence, and the paths of the files."""
    if not is_first():
        return
    console.print(score_table({name: scores}))
    _warn_of_text(instances)
    sample = instances[typical_places(instances)[0]]
    console.print(render_path(sample, console.width))
    draw_path(sample, folder / PICTURE)
    say(f"checkpoint: {checkpoint}\nscores, {INSTANCES} and {PICTURE}: {folder}")


def print_brief(scores: Scores, instances: Sequence[Instance], folder: Path) -> None:
    """Print a line with the scores and their folder, and warnings."""
    figures = scores["paper", "word"]
    latency = ", ".join(f"{name} {figures[name].form()}" for name in ("BLEU", "AL", "DAL"))
    say(f"{latency}: {folder}")
    _warn_of_text(instances)


def _warn_of_text(instances: Sequence[Instance]) -> None:
    sides = {"source": (i.source for i in instances), "target": (i.reference for i in instances)}
    for warning in [*residue(instances), *unspaced_sides(sides)]:
        console.print(warning, markup=False, soft_wrap=True, style="yellow")


def further(scores: Scores) -> None:
    """Print the erasure and the computing time, and the latency with it, as far as known."""
    if scores.erasure is not None:
        of = "character" if scores.writing.target else "word"
        say(f"normalised erasure: {scores.erasure.form()} {of}s taken back for each final {of}")
    took, aware, decoding = scores.computing_ms, scores.computation_aware, scores.decoding
    if took is None:
        return
    unit, times = scores.writing.of_source(), f"{took.median:.1f} ms, 95% within {took.p95:.1f} ms"
    text = f"computing for a source {unit}: median {times}"
    if aware is not None and decoding is not None:
        al, dal = (aware.figures[name].form() for name in ("AL", "DAL"))
        text += f"; with it, at {decoding.word_ms} ms a {unit}, AL is {al} and DAL {dal} {unit}s"
    say(text)
