"""What programs print of a decoded corpus: scores, warnings, one sentence as a path."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from simulmt.analysis.path import render_path
from simulmt.analysis.path_picture import draw_path
from simulmt.analysis.table import score_table
from simulmt.console import console, say
from simulmt.data.corpus import Split
from simulmt.decoding.instance import Instance
from simulmt.processes import is_first_process
from simulmt.scoring.guards import residue


def dropped(name: str, split: Split) -> None:
    """Say how many pairs of a split were left out, if any."""
    if any(split.dropped.values()):
        counts = ", ".join(f"{n} {why.replace('_', ' ')}" for why, n in split.dropped.items())
        say(f"  dropped from {name}: {counts}")


def results(
    name: str,
    scores: Mapping[str, Any],
    instances: Sequence[Instance],
    checkpoint: Path,
    folder: Path,
) -> None:
    """The score table, what looks wrong in the text, one sentence as a path, and the files."""
    if not is_first_process():
        return
    console.print(score_table({name: scores}))
    for warning in residue(instances):
        console.print(warning, markup=False, soft_wrap=True, style="yellow")
    sample = pick_sample(instances)
    console.print(render_path(sample, console.width))
    draw_path(sample, folder / "path.png")
    say(f"checkpoint: {checkpoint}\nscores, instances.log and path.png: {folder}")


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
