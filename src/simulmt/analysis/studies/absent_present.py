"""Prediction accuracy on words whose source was read, or not: Zhang and Feng (2021)."""

from collections.abc import Sequence
from itertools import starmap
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from numpy.typing import NDArray

from simulmt.alignment.links import Links
from simulmt.alignment.prediction import LinkCounts, LinkKind, accuracies, judge
from simulmt.analysis.figures.panels import draw_legend, make_panels, name_rows
from simulmt.analysis.figures.style import COLOURS, DARK, Style
from simulmt.analysis.runs.intervals import draw_sentences, middle
from simulmt.analysis.runs.run import Row
from simulmt.analysis.studies.run_set import Result, RunSet
from simulmt.analysis.studies.word_links import word_links
from simulmt.decoding.instance import Instance

SAMPLES = 1000
_USUAL: Style = {"linestyle": "", "markeredgecolor": "white"}
_PRESENT = _USUAL | {"color": COLOURS[0], "marker": "o", "markersize": 7}
_ABSENT = _USUAL | {"color": COLOURS[1], "marker": "D", "markersize": 6.5}
_MARKS = (("present", "read", -0.12, _PRESENT), ("absent", "not yet read", 0.12, _ABSENT))
"""Kind, what the legend says of it, the shift within a row, and the look."""
_UNLINKED = "#d5d5d5"


def absent_present(
    run_set: RunSet, *, links: Path | None = None, aligner: Path | None = None
) -> Result:
    """Plot how often a written word is right, by whether its source word had been read.

    Args:
        run_set: One or several runs.
        links: A file of the test set's links; None takes those of the data, or an aligner's.
        aligner: A run whose attention links words; None for eflomal.

    Raises:
        UserError: links that are not of the test set, or no aligner where there are no links.
    """
    known, rows = word_links(run_set, links, aligner), list[Row]()
    for (columns, run), output in zip(run_set.named(), known.outputs, strict=True):
        pairs = [(i, linked, known.references[i.index]) for i, linked in output]
        counts = np.stack([*starmap(_judge, pairs)])
        figures = {
            "BLEU": run.number("BLEU"),
            "AL_word": run.figures["AL"].value,
            "links": known.origin,
        }
        rows.append({**columns, **figures, **summarise(counts)})
    return Result(_draw(rows), rows)


def _judge(instance: Instance, linked: Links, reference: Links) -> LinkCounts:
    written, meant = instance.prediction.split(), instance.reference.split()
    return judge(written, instance.delays, linked, meant, reference)


def summarise(counts: LinkCounts) -> Row:
    """Return the columns of all words, and of each kind: `absent_words`, `absent_share` and so on.

    `share` is the share of the kind, and `accuracy` how many of its words are right, in percent;
    `low` and `high` are the middle 95% of a bootstrap over sentences. A figure without words to
    count is None.

    Args:
        counts: The counts of the sentences, (N, 3, 2).
    """
    total = counts.sum(0)
    words = int(total[:, 0].sum())
    sums = np.tensordot(draw_sentences(len(counts), SAMPLES), counts, 1).astype(np.int64)
    resampled = accuracies(sums)  # (samples, 3)
    summary: Row = {"words": words}
    for kind, accuracy, samples in zip(LinkKind, accuracies(total), resampled.T, strict=True):
        name, number = kind.name.lower(), int(total[kind, 0])
        low, high = middle(samples[~np.isnan(samples)]) if number else (None, None)
        summary |= {
            f"{name}_words": number,
            f"{name}_share": 100 * number / words if words else None,
            f"{name}_accuracy": float(accuracy) if number else None,
            f"{name}_low": low,
            f"{name}_high": high,
        }
    return summary


def _draw(rows: Sequence[Row]) -> Figure:
    """Draw a row for each run: left how many words are right, right how many are predicted."""
    names, places = [row["name"] for row in rows], np.arange(len(rows))
    width = 6.6 + 0.09 * max(map(len, names))  # inches, the longest name's among them
    figure, (left, right) = make_panels(1, 2, width, 1.4 + 0.42 * len(rows))
    name_rows((left, right), names, range(len(rows)))

    def column(name: str) -> NDArray[np.float64]:
        return np.array([row[name] for row in rows], dtype=float)  # NaN for None

    handles = []
    for kind, read, shift, look in _MARKS:
        ends = [column(f"{kind}_low"), column(f"{kind}_high")]
        left.plot(ends, [places + shift] * 2, color=DARK, linewidth=1.6, zorder=2)
        style = {"label": f"{kind}: source word {read}", **look}
        handles += left.plot(column(f"{kind}_accuracy"), places + shift, zorder=3, **style)
    left.set_xlabel("right words (%), with 95% interval")
    absent, unlinked = (np.nan_to_num(column(f"{x}_share")) for x in ("absent", "unlinked"))
    right.barh(places, absent, height=0.55, color=COLOURS[1])
    right.barh(places, unlinked, height=0.55, left=absent, color=_UNLINKED)
    beside: Style = {"va": "center", "textcoords": "offset points", "fontsize": 8.5}
    for row, end, y in zip(rows, absent + unlinked, places, strict=True):
        right.annotate(f"{row['absent_words']:,} absent", (end, y), (4, 0), **beside)
    right.set(xlabel="share of the words (%)", xlim=(0, max(5, 1.35 * max(absent + unlinked))))
    draw_legend(figure, [*handles, Line2D([], [], color=_UNLINKED, linewidth=8, label="unlinked")])
    return figure
