"""The report as one web page, all in the file: curves, runs, paths, tests (`report.html`)."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from simulmt.analysis.fragments import (
    Markup,
    bullets,
    details,
    link,
    number,
    pairs,
    paragraph,
    section,
    table,
    text,
)
from simulmt.analysis.logs import Logs, sample_places
from simulmt.analysis.path import interleaved
from simulmt.analysis.path_svg import path_svg
from simulmt.analysis.runs import Row, Run
from simulmt.analysis.selection import with_empty_ranges_together
from simulmt.analysis.significance import BETWEEN
from simulmt.decoding.instance import Instance

_TEMPLATE = Path(__file__).with_name("report.html")
_DIGITS = {"AP": ".3f"}
_SWATCH = (
    '<svg width="22" height="12" aria-hidden="true"><rect width="22" height="12" class="{}"/></svg>'
)
_KEY = (
    f'<p class="key"><span>{_SWATCH.format("new")}read for this word</span>'
    f"<span>{_SWATCH.format('read')}read before</span></p>"
)


@dataclass(frozen=True)
class Page:
    """What there is to show.

    Attributes:
        folder: The name of the folder that was searched.
        runs: All of them.
        rows: What `curves.csv` says of each.
        names: What each is called, by folder.
        unit: Of latencies.
        convention: Whose figures.
        latencies: The columns.
        logs: The decoded test sets.
        samples: How many sentences to show of each run.
        curves: HTML.
        pairs: What `significance.csv` says.
        selected: What `selected.csv` says; None if nothing was asked for.
        left_out: What could not be used, with reasons.
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
    curves: str
    pairs: Sequence[Row]
    selected: Sequence[Row] | None
    left_out: Sequence[str]


def write_report_page(page: Page, path: Path) -> Path:
    """Write the page; the same runs give the same bytes."""
    parts = {
        "title": text(f"simulmt: {page.folder}"),
        "heading": text(page.folder),
        "about": text(_about(page)),
        "body": "".join(_sections(page)),
    }
    template = _TEMPLATE.read_text(encoding="utf-8")  # one pass: no text is taken for a place
    filled = re.sub(r"\{\{(\w+)\}\}", lambda match: parts[match[1]], template)
    path.write_text(filled, encoding="utf-8", newline="\n")
    return path


def _about(page: Page) -> str:
    data = page.runs[0].options["data.name"]
    sentences = page.runs[0].scores.sentences
    by = "" if page.convention == "paper" else f", counted by {page.convention}"
    trained = sum(not run.turned for run in page.runs)
    further = f" and {n} further decodings" if (n := len(page.runs) - trained) else ""
    runs = f"{trained} runs{further} on {data}, {sentences} test sentences"
    return f"{runs}; latency in {page.unit}s{by}"


def _sections(page: Page) -> list[Markup]:
    found = [
        section("Quality and latency", page.curves),
        section("Runs", _runs_table(page)),
    ]
    if page.selected is not None:
        found.append(section("Selected on the development set", _selected_table(page)))
    found.append(section("Equal at matched latency?", *_significance(page)))
    cards = [_card(page, number, run) for number, run in enumerate(page.runs)]
    found.append(section("Each run", *cards))
    if page.left_out:
        found.append(section("Left out", bullets(page.left_out)))
    return found


def _runs_table(page: Page) -> Markup:
    suffix = "" if page.convention == "paper" else f"_{page.convention}"
    heads = [
        "run",
        "BLEU",
        "95% interval",
        *page.latencies,
        "offline BLEU",
        "parameters",
        "updates",
    ]
    heads += ["training s", "tokens/s"]
    rows = []
    for run, row in zip(page.runs, page.rows, strict=True):
        low, high = row[f"BLEU_low{suffix}"], row[f"BLEU_high{suffix}"]
        interval = Markup(f'<data value="{low}">{low:.1f}–{high:.1f}</data>') if low else None
        cost = run.cost
        rows.append([
            _linked(page, run.folder),
            number(run.bleu(page.convention)),
            interval,
            *(_latency(page, run, name) for name in page.latencies),
            number(row[f"offline_BLEU{suffix}"]),
            number(row["parameters"], ",.0f"),
            number(row["updates"], ",.0f"),
            number(cost["training_seconds"], ",.0f"),
            number(cost["training_tokens_per_s"], ",.0f"),
        ])  # fmt: skip
    return table(heads, rows, sortable=True)


def _latency(page: Page, run: Run, name: str) -> Markup:
    return number(run.figures(page.convention, page.unit)[name].value, _DIGITS.get(name, ".2f"))


def _selected_table(page: Page) -> Markup:
    assert page.selected is not None
    keys = [key for key in page.selected[0] if key.startswith(("dev_", "test_"))]
    rows = []
    for row in with_empty_ranges_together(page.selected):
        run = "no run" if row["run"] is None else _linked(page, row["folder"])
        figures = [number(row[key]) for key in keys]
        rows.append([row["system"], row["range"], run, number(row["step"], ",.0f"), *figures])
    names = [key.replace("_", " ") for key in keys]
    return table(["system", "range", "run", "update", *names], rows)


def _significance(page: Page) -> list[str]:
    if not page.pairs:
        return [paragraph("No two points of different lines have latencies that close.")]
    said = (
        "Paired bootstrap of BLEU: how likely a difference of this size would be between equal "
        "systems. Not corrected for the number of pairs. Several seeds count by their mean."
    )
    rows = [
        [
            *(
                _linked(page, row[f"folder_{side}"].split(BETWEEN)[0], row[side])
                for side in ("one", "other")
            ),
            number(row["DAL_one"]), number(row["DAL_other"]),
            number(row["BLEU_one"]), number(row["BLEU_other"]),
            number(row["difference"]),
            f"{row['difference_low']:.2f} to {row['difference_high']:.2f}", number(row["p"], ".3f"),
        ]
        for row in page.pairs
    ]  # fmt: skip
    heads = ["better", "other", "DAL", "DAL", "BLEU", "BLEU", "difference", "95%", "p"]
    return [paragraph(said), table(heads, rows, sortable=True)]


def _linked(page: Page, folder: str, name: str | None = None) -> Markup:
    """A run's name, or another one, which leads to its details."""
    return link(f"#run-{[*page.names].index(folder)}", name or page.names[folder])


def _card(page: Page, number_: int, run: Run) -> Markup:
    """What is known of one run."""
    figures = run.figures(page.convention, page.unit)
    latency = page.latencies[0]
    head = f"BLEU {figures['BLEU'].form(1)}, {latency} {figures[latency].form()}"
    summary = Markup(f"<b>{text(page.names[run.folder])}</b> {text(head)}")
    options = pairs(run.options)
    inside = [
        paragraph(run.folder),
        *_paths(page, run),
        "<h3>Scores</h3>",
        table(["", "value", "signature"], _scores(page, run)),
        "<h3>Training</h3>",
        pairs(dataclasses.asdict(run.training)),
        details(Markup("All choices"), options),
    ]
    return details(summary, "".join(inside), f"run-{number_}")


def _scores(page: Page, run: Run) -> list[list[Any]]:
    figures = run.figures(page.convention, page.unit)
    return [[name, number(score.value, ".3f"), score.signature] for name, score in figures.items()]


def _paths(page: Page, run: Run) -> list[str]:
    log = page.logs.get(run.folder, [])
    places = [place for place in sample_places(page.logs, page.samples) if place < len(log)]
    if not places:
        return []
    paths = "".join(_path(log[place]) for place in places)
    return [f"<h3>Paths</h3>{_KEY}", f'<div class="paths">{paths}</div>']


def _path(instance: Instance) -> str:
    said = f"<figcaption>{text(interleaved(instance))}"
    said += f"<br><i>reference:</i> {text(instance.reference)}</figcaption>"
    return f'<figure><div class="wide">{path_svg(instance)}</div>{said}</figure>'
