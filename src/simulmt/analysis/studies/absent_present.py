"""Prediction accuracy on words whose source was read, or not: Zhang and Feng (2021)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from simulmt.alignment.aligner import align_text
from simulmt.alignment.links import Links, known_links, read_links
from simulmt.alignment.prediction import Counts, Kind, accuracies, judge, project
from simulmt.analysis.intervals import draw, middle
from simulmt.analysis.names import row_names
from simulmt.analysis.studies.lines import panels
from simulmt.analysis.studies.material import Material, Result, about
from simulmt.analysis.style import COLOURS, DARK, GREY, draw_legend
from simulmt.data.corpus import Corpus
from simulmt.decoding.instance import Instance

SAMPLES = 1000

_STYLES: dict[Kind, dict[str, Any]] = {
    Kind.PRESENT: {"color": COLOURS[0], "marker": "o", "markersize": 7},
    Kind.ABSENT: {"color": COLOURS[1], "marker": "D", "markersize": 6.5},
    Kind.UNLINKED: {"color": GREY, "marker": "x", "markersize": 6},
}


class Linked(NamedTuple):
    """The links that a study goes by, each by the index of its sentence."""

    origin: str
    """`data`, `file` or `aligner`."""
    references: Sequence[Links]
    outputs: Sequence[Mapping[int, Links]]
    """Of each run."""


def absent_present(material: Material, *, links: str | None = None) -> Result:
    """How often a written word is right, by whether its source word had been read.

    Where links of the references are known, an output word has those of the word that it stands
    for. Else outputs and references are aligned, together with the training text.

    Args:
        material: One or several runs.
        links: A file of the test set's links; None: those of the data, or else an aligner's.

    Raises:
        UserError: links that are not of the test set, or no aligner where there are none.
    """
    runs = material.runs
    corpus = material.read(material.place(runs[0]))
    split = corpus.splits["test"]
    decoded = [material.instances_of(run, split) for run in runs]
    linked = _link(corpus, decoded, links)
    rows = []
    found = zip(row_names(runs), runs, decoded, linked.outputs, strict=True)
    for name, run, instances, ours in found:
        counts = np.stack([
            judge(
                one.prediction.split(), one.delays, ours[one.index],
                one.reference.split(), linked.references[one.index],
            )
            for one in instances
        ])  # fmt: skip
        figures = {"BLEU": run.figures()["BLEU"], "AL_word": run.figures()["AL"]}
        known = {"name": name, **about(run), **figures, "links": linked.origin}
        rows.append(known | summary(counts))
    return Result(_draw(rows), rows)


def summary(counts: Counts) -> dict[str, Any]:
    """Columns of the sentences' counts (N, 3, 2): words, share and accuracy of each kind.

    Accuracies have the middle 95% of a bootstrap over sentences; all are in percent, and None
    where there is no such word.
    """
    total = counts.sum(0)
    drawn = draw(len(counts), SAMPLES)
    resampled = np.stack([accuracies(counts[rows].sum(0)) for rows in drawn])  # (samples, 3)
    words = int(total[:, 0].sum())
    row: dict[str, Any] = {"words": words}
    for kind, accuracy, samples in zip(Kind, accuracies(total), resampled.T, strict=True):
        name, number = kind.name.lower(), int(total[kind, 0])
        low, high = middle(samples[~np.isnan(samples)]) if number else (None, None)
        row |= {
            f"{name}_words": number,
            f"{name}_share": 100 * number / words if words else None,
            f"{name}_accuracy": float(accuracy) if number else None,
            f"{name}_low": low,
            f"{name}_high": high,
        }
    return row


def _link(corpus: Corpus, decoded: Sequence[Sequence[Instance]], file: str | None) -> Linked:
    split = corpus.splits["test"]
    if file is None and split.links is None:
        return _aligned(corpus, decoded)
    gold = (
        read_links(Path(file), split.sources, split.targets)
        if file is not None
        else [known_links(sentence) for sentence in split.links or []]
    )
    references = [one.possible for one in gold]
    outputs = [
        {
            one.index: project(one.prediction.split(), one.reference.split(), references[one.index])
            for one in instances
        }
        for instances in decoded
    ]
    return Linked("data" if file is None else "file", references, outputs)


def _aligned(corpus: Corpus, decoded: Sequence[Sequence[Instance]]) -> Linked:
    """References and outputs aligned in one go, which equal sentences share."""
    train, split = corpus.splits["train"], corpus.splits["test"]
    outputs = [(one.source, one.prediction) for instances in decoded for one in instances]
    references = [*zip(split.sources, split.targets, strict=True)]
    pairs = [*dict.fromkeys(references + outputs)]
    links = align_text(
        [source for source, _ in pairs] + [*train.sources],
        [target for _, target in pairs] + [*train.targets],
        wanted=len(pairs),
    )
    of = dict(zip(pairs, links, strict=True))
    ours = [
        {one.index: of[one.source, one.prediction] for one in instances} for instances in decoded
    ]
    return Linked("aligner", [of[pair] for pair in references], ours)


def _draw(rows: Sequence[Mapping[str, Any]]) -> Figure:
    """A line for each run: left how often it is right, right how often it predicts."""
    names = [row["name"] for row in rows]
    width = 6.6 + 0.09 * max(map(len, names))  # inches, the longest name's among them
    figure, (left, right) = panels(1, 2, width, 1.4 + 0.42 * len(rows))
    places = range(len(rows))
    for axes in (left, right):
        axes.set_ylim(len(rows) - 0.4, -0.6)
        axes.grid(visible=False, axis="y")
    for y, row in zip(places, rows, strict=True):
        for shift, kind in ((-0.12, Kind.PRESENT), (0.12, Kind.ABSENT)):
            _draw_accuracy(left, row, y + shift, kind)
    shares = [row["absent_share"] or 0 for row in rows]
    unlinked = [row["unlinked_share"] or 0 for row in rows]
    right.barh(places, shares, height=0.55, color=COLOURS[1], label="absent")
    right.barh(places, unlinked, height=0.55, left=shares, color="#d5d5d5", label="unlinked")
    for y, row, a, b in zip(places, rows, shares, unlinked, strict=True):
        right.annotate(f"{row['absent_words']:,} absent", (a + b, y), (4, 0), va="center",
                       textcoords="offset points", fontsize=8.5)  # fmt: skip
    right.set_xlim(0, max(5, *(1.35 * (a + b) for a, b in zip(shares, unlinked, strict=True))))
    left.set_yticks(places, names)
    for label in left.get_yticklabels():
        label.set_parse_math(False)
    right.set_yticks(places, [""] * len(rows))
    left.set_xlabel("right words (%), with 95% interval", fontsize=11)
    right.set_xlabel("share of the words (%)", fontsize=11)
    markers = [
        Line2D([], [], linestyle="", label=f"{kind.name.lower()}: source word {what}", **style)
        for kind, what in ((Kind.PRESENT, "read"), (Kind.ABSENT, "not yet read"))
        for style in [_STYLES[kind]]
    ]
    grey = Line2D([], [], color="#d5d5d5", linewidth=8, label="unlinked")
    draw_legend(figure, [*markers, grey])
    return figure


def _draw_accuracy(axes: Axes, row: Mapping[str, Any], y: float, kind: Kind) -> None:
    name = kind.name.lower()
    if row[f"{name}_accuracy"] is not None:
        ends = [row[f"{name}_low"], row[f"{name}_high"]]
        axes.plot(ends, [y, y], color=DARK, linewidth=1.6, zorder=2)
        axes.plot(row[f"{name}_accuracy"], y, markeredgecolor="white", zorder=3, **_STYLES[kind])
