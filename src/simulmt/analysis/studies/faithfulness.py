"""Sufficiency and necessity of a policy, and hallucinated words, by latency.

Zhang and Feng (2022, Dual Paths) and Chen et al. (2021); `simulmt.scoring.faithfulness`.
"""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from statistics import fmean

from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from simulmt.alignment.links import Links, by_target
from simulmt.analysis.figures.panels import draw_legend, draw_lines, make_panels
from simulmt.analysis.figures.style import GREY, Style, named_styles
from simulmt.analysis.runs.run import Row
from simulmt.analysis.studies.run_set import Result, RunSet, gold_links
from simulmt.analysis.studies.word_links import projected, word_links
from simulmt.analysis.tables.names import line_names
from simulmt.data.corpus import Split
from simulmt.decoding.instance import Instance
from simulmt.scoring import faithfulness as measures
from simulmt.scoring.faithfulness import Counted, Several, Strength
from simulmt.scoring.score import sentence_dals
from simulmt.scoring.scores import Figures

_SHOWN = {
    "sufficiency": "sufficiency (%)",
    "necessity": "necessity (%)",
    "hallucination": "words without a link (%)",
}


def faithfulness(
    run_set: RunSet,
    *,
    links: Path | None = None,
    aligner: Path | None = None,
    strength: Strength = "possible",
    several: Several = "max",
) -> Result:
    """Plot sufficiency, necessity and hallucination rate by DAL, for outputs and for references.

    A run that decoded by its own decision is also forced to write the references.

    Args:
        run_set: One or several runs.
        links: A file of the test set's links; None takes those of the data, or an aligner's.
        aligner: A run whose attention links words; None for eflomal.
        strength: Which of the known links count.
        several: Which of several linked source words of a word decides.

    Raises:
        UserError: links that are not of the test set, or no aligner where there are no links.
    """
    known, writing = word_links(run_set, links, aligner, strength), run_set.runs[0].scores.writing
    counted, rows = Counted(known.origin, strength, several, writing=writing), list[Row]()
    for (columns, run), output in zip(run_set.named(), known.outputs, strict=True):
        written, found = zip(*output, strict=True)
        rows.append(columns | _row(written, found, counted))
        if not run.is_decoding:
            forced, of_reference = run_set.force(run), replace(counted, of="reference")
            rows.append(columns | _row(forced, known.references, of_reference))
    return Result(_draw(run_set, rows), rows)


def known_faithfulness(instances: Sequence[Instance], split: Split) -> Figures:
    """Return the figures of outputs by the links of the data; none if these are unknown."""
    if (gold := gold_links(split, None)) is None:
        return {}
    known = [one.possible for one in gold]
    linked = _linked(instances, [projected(instance, known) for instance in instances])
    counted = Counted("data", writing=instances[0].writing)
    return measures.faithfulness(linked, [one.delays for one in instances], counted)


def _linked(instances: Sequence[Instance], links: Sequence[Links]) -> list[list[set[int]]]:
    lengths = [instance.prediction_length for instance in instances]
    return [*map(by_target, links, lengths)]


def _row(instances: Sequence[Instance], links: Sequence[Links], counted: Counted) -> Row:
    """Return the columns of some sentences."""
    linked, delays = _linked(instances, links), [instance.delays for instance in instances]
    figures = measures.faithfulness(linked, delays, counted)
    written = [instance for instance in instances if instance.delays]
    row: Row = {"of": counted.of, "DAL_word": fmean(sentence_dals(written)) if written else None}
    row |= {name: figure.value for name, figure in figures.items()}
    row |= {f"AR{k}": measures.anticipation_rate(linked, k, counted).value for k in measures.KS}
    return row | {"signature": figures["sufficiency"].signature}


def _draw(run_set: RunSet, rows: Sequence[Row]) -> Figure:
    """Draw a panel for each figure; a run forced to write the references is hollow."""
    lines, unit = line_names(run_set.runs), run_set.runs[0].scores.writing.of_source()
    filled = named_styles(run_set.runs, [lines[run.folder] for run in run_set.runs])
    hollow: Style = {"markerfacecolor": "white", "linewidth": 0.8}
    outlined = {n: s | hollow | {"markeredgecolor": s["color"]} for n, s in filled.items()}
    figure, panels = make_panels(1, 3, 11, 4)
    for axes, (column, label) in zip(panels, _SHOWN.items(), strict=True):
        for of, styles in (("reference", outlined), ("output", filled)):
            points = [
                (lines[row["folder"]], row["DAL_word"], row[column])
                for row in rows
                if row["of"] == of and row["DAL_word"] is not None
            ]
            handles = draw_lines(axes, points, styles)
        axes.set(xlabel=f"DAL (source {unit}s)", ylabel=label)
    panels[-1].set_ylim(0, max(1.0, panels[-1].get_ylim()[1]))  # often there are none
    mark: Style = {"color": GREY, "marker": "o", "linestyle": "", "markerfacecolor": "white"}
    draw_legend(figure, [*handles, Line2D([], [], label="forced to write the references", **mark)])
    return figure
