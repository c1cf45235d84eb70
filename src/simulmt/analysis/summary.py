"""What programs print of a decoded corpus: scores, warnings, one sentence as a path."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from simulmt.analysis.path import render_path
from simulmt.analysis.path_picture import draw_path
from simulmt.analysis.table import score_table
from simulmt.console import console, say
from simulmt.data.corpus import Split
from simulmt.decoding.instance import Instance
from simulmt.processes import is_first_process
from simulmt.run_directory import INSTANCES, PICTURE
from simulmt.scoring.guards import residue
from simulmt.scoring.scores import Scores


def dropped(name: str, split: Split) -> None:
    """Print how many pairs of a split were left out, if any."""
    if any(split.dropped.values()):
        counts = ", ".join(f"{n} {why.replace('_', ' ')}" for why, n in split.dropped.items())
        say(f"  dropped from {name}: {counts}")


def results(
    name: str, scores: Scores, instances: Sequence[Instance], checkpoint: Path, folder: Path
) -> None:
    """Print the score table, residue in the text, one sentence as a path, and the files."""
    if not is_first_process():
        return
    console.print(score_table({name: scores}))
    for warning in residue(instances):
        console.print(warning, markup=False, soft_wrap=True, style="yellow")
    sample = pick_sample(instances)
    console.print(render_path(sample, console.width))
    draw_path(sample, folder / PICTURE)
    say(f"checkpoint: {checkpoint}\nscores, {INSTANCES} and {PICTURE}: {folder}")


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
