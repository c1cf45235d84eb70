"""The report as one web page in one file: curves, runs, paths, tests (`report.html`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from simulmt.analysis.logs import Logs, sample_places
from simulmt.analysis.path import interleaved
from simulmt.analysis.report_curves import DrawnCurve
from simulmt.analysis.runs import Row, Run
from simulmt.analysis.selection import with_empty_ranges_together
from simulmt.analysis.significance import BETWEEN
from simulmt.analysis.staircase import word_staircase
from simulmt.analysis.templates import write_html
from simulmt.decoding.instance import Instance
from simulmt.scoring.scores import Figures


@dataclass(frozen=True)
class Page:
    """What the page shows.

    Attributes:
        folder: The name of the folder that was searched for runs.
        runs: All runs, in the order of the table.
        rows: The row of `curves.csv` for each run.
        names: The name of each run, by its folder.
        unit: The unit of latencies.
        convention: The convention that counted the figures.
        latencies: The latencies that have a column and a curve.
        logs: The decoded test sets.
        samples: How many sentences to show of each run.
        curves: The curve of each latency.
        pairs: The rows of `significance.csv`.
        selected: The rows of `selected.csv`; None without a selection.
        left_out: The runs that could not be used, with reasons.
    """

    folder: str
    runs: Sequence[Run]
    rows: Sequence[Row]
    names: Mapping[str, str]
    unit: str
    convention: str
    latencies: Sequence[str]
    logs: Logs
    samples: int
    curves: Sequence[DrawnCurve]
    pairs: Sequence[Row]
    selected: Sequence[Row] | None
    left_out: Sequence[str]


@dataclass(frozen=True)
class Card:
    """What the page shows of one run.

    Attributes:
        run: The run.
        name: Its name.
        row: The row of `curves.csv`.
        figures: BLEU and latencies, each with its signature.
        paths: The sentences whose paths are shown.
    """

    run: Run
    name: str
    row: Row
    figures: Figures
    paths: Sequence[Instance]


def write_report_page(page: Page, path: Path) -> Path:
    """Write the page, the same bytes for the same runs, and return its path."""
    return write_html(
        "report.html",
        path,
        page=page,
        cards=[_card(page, run, row) for run, row in zip(page.runs, page.rows, strict=True)],
        selected=with_empty_ranges_together(page.selected or []),
        trained=sum(not run.turned for run in page.runs),
        training=asdict,
        places={folder: place for place, folder in enumerate(page.names)},
        BETWEEN=BETWEEN,
        suffix="" if page.convention == "paper" else f"_{page.convention}",
        zip=zip,
        interleaved=interleaved,
        word_staircase=word_staircase,
    )


def _card(page: Page, run: Run, row: Row) -> Card:
    log, places = page.logs.get(run.folder, []), sample_places(page.logs, page.samples)
    paths = [log[place] for place in places if place < len(log)]
    figures = run.figures(page.convention, page.unit)
    return Card(run, page.names[run.folder], row, figures, paths)
