"""The report as one web page in one file: curves, runs, paths, tests (`report.html`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from simulmt.analysis.logs import Logs, sample_places
from simulmt.analysis.path import interleaved
from simulmt.analysis.report_curves import DrawnCurve
from simulmt.analysis.runs import Run
from simulmt.analysis.selection import with_empty_ranges_together
from simulmt.analysis.significance import BETWEEN
from simulmt.analysis.staircase import word_staircase
from simulmt.analysis.templates import write_html
from simulmt.decoding.instance import Instance


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
    pairs: Sequence[Mapping[str, Any]]
    selected: Sequence[Mapping[str, Any]] | None
    left_out: Sequence[str]


@dataclass(frozen=True)
class Card:
    """What the page shows of one run.

    Attributes:
        run: The run.
        name: Its name.
        row: The row of `curves.csv`.
        figures: BLEU and latencies.
        scores: Name, value and signature of each score.
        paths: The sentences whose paths are shown.
    """

    run: Run
    name: str
    row: Mapping[str, Any]
    figures: Mapping[str, Any]
    scores: Sequence[tuple[str, float | None, str]]
    paths: Sequence[Instance]


def write_report_page(page: Page, path: Path) -> Path:
    """Write the page, the same bytes for the same runs, and return its path."""
    return write_html(
        "report.html",
        path,
        page=page,
        cards=[_card(page, run, row) for run, row in zip(page.runs, page.rows, strict=True)],
        selected=with_empty_ranges_together(page.selected or []),
        places={folder: place for place, folder in enumerate(page.names)},
        BETWEEN=BETWEEN,
        suffix="" if page.convention == "paper" else f"_{page.convention}",
        zip=zip,
        interleaved=interleaved,
        word_staircase=word_staircase,
    )


def _card(page: Page, run: Run, row: Mapping[str, Any]) -> Card:
    log, places = page.logs.get(run.folder, []), sample_places(page.logs, page.samples)
    paths = [log[place] for place in places if place < len(log)]
    figures = run.figures(page.convention, page.unit)
    return Card(run, page.names[run.folder], row, figures, _scores(page, run), paths)


def _scores(page: Page, run: Run) -> list[tuple[str, float | None, str]]:
    """Name, value and signature of each score; the convention `paper` has chrF, too."""
    figures, quality = dict(run.figures(page.convention, page.unit)), run.scores["quality"]
    signatures = dict(figures.pop("signature"))
    if page.convention == "paper":
        figures = {"BLEU": figures["BLEU"], "chrF": quality["chrF"], **figures}
        signatures["BLEU"] = f"BLEU|{quality['signature']}"
        signatures["chrF"] = f"chrF|{quality['chrF_signature']}"
    return [(k, v, signatures.get(k, "")) for k, v in figures.items() if k != "unit"]
