"""Prediction accuracy on words whose source was read, or not: Zhang and Feng (2021)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from simulmt.alignment.aligner import align_text
from simulmt.alignment.links import Links
from simulmt.alignment.prediction import Counts, Kind, accuracies, judge, project
from simulmt.analysis.intervals import draw, middle
from simulmt.analysis.studies.drawing import name_rows
from simulmt.analysis.studies.run_set import Result, RunSet, gold_links, run_columns
from simulmt.analysis.style import COLOURS, DARK, Style, draw_legend, make_panels
from simulmt.data.corpus import Corpus
from simulmt.decoding.instance import Instance

SAMPLES = 1000
_STYLES: dict[Kind, Style] = {
    Kind.PRESENT: {"color": COLOURS[0], "marker": "o", "markersize": 7,
                   "label": "present: source word read"},
    Kind.ABSENT: {"color": COLOURS[1], "marker": "D", "markersize": 6.5,
                  "label": "absent: source word not yet read"},
}  # fmt: skip
_UNLINKED = "#d5d5d5"


class Alignments(NamedTuple):
    """The word alignments of a study, each by the index of its sentence."""

    origin: str
    """`data`, `file` or `aligner`."""
    references: Sequence[Links]
    outputs: Sequence[Mapping[int, Links]]
    """The links of each run's output."""


class Accuracy(NamedTuple):
    """The words of one kind: their number, their share, and how many are right, in percent.

    `low` and `high` are the middle 95% of a bootstrap over sentences. A figure without words to
    count is None.
    """

    words: int
    share: float | None
    accuracy: float | None
    low: float | None
    high: float | None


def absent_present(run_set: RunSet, *, links: str | None = None) -> Result:
    """Plot how often a written word is right, by whether its source word had been read.

    Where links of the references are known, an output word has those of the word that it stands
    for. Otherwise, outputs and references are aligned together with the training text.

    Args:
        run_set: One or several runs.
        links: A file of the test set's links; None takes those of the data, or an aligner's.

    Raises:
        UserError: links that are not of the test set, or no aligner where there are no links.
    """
    corpus = run_set.data
    decoded = [run_set.instances_of(run, corpus.splits["test"]) for run in run_set.runs]
    aligned = _align(corpus, decoded, links)
    summaries, rows = {}, []
    outputs = zip(run_set.named(), decoded, aligned.outputs, strict=True)
    for (name, run), instances, output_links in outputs:
        counts = np.stack([
            judge(
                i.prediction.split(), i.delays, output_links[i.index],
                i.reference.split(), aligned.references[i.index],
            )
            for i in instances
        ])  # fmt: skip
        summaries[name] = summarise(counts)
        rows.append({
            **run_columns(name, run), "BLEU": run.bleu(), "AL_word": run.figures()["AL"].value,
            "links": aligned.origin, "words": int(counts[..., 0].sum()),
            **{f"{kind.name.lower()}_{column}": value
               for kind, accuracy in summaries[name].items()
               for column, value in accuracy._asdict().items()},
        })  # fmt: skip
    return Result(_draw(summaries), rows)


def summarise(counts: Counts) -> dict[Kind, Accuracy]:
    """Return the accuracy of each kind of word, from the counts of the sentences (N, 3, 2)."""
    total = counts.sum(0)
    words = int(total[:, 0].sum())
    drawn = draw(len(counts), SAMPLES)
    resampled = np.stack([accuracies(counts[rows].sum(0)) for rows in drawn])  # (samples, 3)
    summary = {}
    for kind, accuracy, samples in zip(Kind, accuracies(total), resampled.T, strict=True):
        number = int(total[kind, 0])
        known = (float(accuracy), *middle(samples[~np.isnan(samples)])) if number else [None] * 3
        summary[kind] = Accuracy(number, 100 * number / words if words else None, *known)
    return summary


def _align(corpus: Corpus, decoded: Sequence[Sequence[Instance]], file: str | None) -> Alignments:
    gold = gold_links(corpus.splits["test"], file)
    if gold is None:
        return _align_text(corpus, decoded)
    references = [links.possible for links in gold]
    outputs = [
        {i.index: project(i.prediction.split(), i.reference.split(), references[i.index])
         for i in instances}
        for instances in decoded
    ]  # fmt: skip
    return Alignments("file" if file else "data", references, outputs)


def _align_text(corpus: Corpus, decoded: Sequence[Sequence[Instance]]) -> Alignments:
    """Align references and outputs in one go; equal sentences share their links."""
    train, split = corpus.splits["train"], corpus.splits["test"]
    references = [*zip(split.sources, split.targets, strict=True)]
    outputs = [(i.source, i.prediction) for instances in decoded for i in instances]
    pairs = [*dict.fromkeys(references + outputs)]
    sources, targets = zip(*pairs, strict=True)
    links = align_text([*sources, *train.sources], [*targets, *train.targets], wanted=len(pairs))
    links_of = dict(zip(pairs, links, strict=True))
    return Alignments(
        "aligner",
        [links_of[pair] for pair in references],
        [{i.index: links_of[i.source, i.prediction] for i in instances} for instances in decoded],
    )


def _draw(summaries: Mapping[str, Mapping[Kind, Accuracy]]) -> Figure:
    """Draw a row for each run: left how many words are right, right how many are predicted."""
    width = 6.6 + 0.09 * max(map(len, summaries))  # inches, the longest name's among them
    figure, (left, right) = make_panels(1, 2, width, 1.4 + 0.42 * len(summaries))
    name_rows((left, right), [*summaries], range(len(summaries)))
    ends = [_draw_run(left, right, y, summary) for y, summary in enumerate(summaries.values())]
    left.set_xlabel("right words (%), with 95% interval")
    right.set(xlabel="share of the words (%)", xlim=(0, max(5, 1.35 * max(ends))))
    points = [Line2D([], [], linestyle="", **style) for style in _STYLES.values()]
    unlinked = Line2D([], [], color=_UNLINKED, linewidth=8, label="unlinked")
    draw_legend(figure, [*points, unlinked])
    return figure


def _draw_run(left: Axes, right: Axes, y: float, summary: Mapping[Kind, Accuracy]) -> float:
    """Draw the row of a run; returns the right end of its bar."""
    for shift, (kind, style) in zip((-0.12, 0.12), _STYLES.items(), strict=True):
        _, _, accuracy, low, high = summary[kind]
        if accuracy is not None and low is not None and high is not None:
            left.plot([low, high], [y + shift] * 2, color=DARK, linewidth=1.6, zorder=2)
            left.plot(accuracy, y + shift, markeredgecolor="white", zorder=3, **style)
    absent, unlinked = (summary[kind].share or 0 for kind in (Kind.ABSENT, Kind.UNLINKED))
    right.barh(y, absent, height=0.55, color=COLOURS[1])
    right.barh(y, unlinked, height=0.55, left=absent, color=_UNLINKED)
    right.annotate(f"{summary[Kind.ABSENT].words:,} absent", (absent + unlinked, y), (4, 0),
                   va="center", textcoords="offset points", fontsize=8.5)  # fmt: skip
    return absent + unlinked
