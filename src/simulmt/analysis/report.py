"""The runs of a folder side by side: table, figures as CSV, curves, and one page of it all."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console

from simulmt.analysis.choices import Choices, read_choices
from simulmt.analysis.intervals import Resampled
from simulmt.analysis.logs import Logs, read_logs, resample_logs
from simulmt.analysis.names import row_names
from simulmt.analysis.published import Published, published_series, read_published
from simulmt.analysis.report_curves import DrawnCurve, write_curve
from simulmt.analysis.report_page import Page, write_report_page
from simulmt.analysis.runs import Found, Run, find_runs
from simulmt.analysis.selection import select_runs, tested_checkpoint
from simulmt.analysis.significance import COLUMNS, matched_pairs
from simulmt.analysis.table import score_table
from simulmt.analysis.target import check_writable, writing
from simulmt.analysis.terminal import left_columns, selection_table
from simulmt.analysis.tidy import curve_rows, write_rows
from simulmt.errors import UserError


def report(options: Mapping[str, Any], home: Path = Path()) -> None:
    """Print the table of a folder's runs, and write what compares them.

    That is `curves.csv`, `cost.csv`, `significance.csv`, `curve-DAL.png` and `.svg` (and so on for
    each latency), `report.html`, and with `select` also `selected.csv`.

    Args:
        options: those of `conf/report.yaml`.
        home: the folder that has `experiments`.

    Raises:
        UserError: a bad option, no finished run, runs on different data, a run whose scores are
            older than the convention, or a folder that cannot be written.
    """
    choices = read_choices(options)
    latencies, theirs = choices.latencies, home / "experiments"
    published = [p for name in choices.files for p in read_published(name, latencies, theirs)]
    console = Console(highlight=False)
    console.width = max(console.width, 0 if console.is_terminal else 140)
    work = _gather(choices, console)
    rows = {work.names[run.folder]: run.scores for run in work.runs}
    left = left_columns(work.runs, choices.training)
    console.print(score_table(rows, left, choices.convention, choices.counted_in))
    with writing(choices.target):
        choices.target.mkdir(parents=True, exist_ok=True)
        written = _write(work, published, console)
    console.print(f"written: {', '.join(map(str, written))}", markup=False, soft_wrap=True)


def comparable(found: Found, folder: Path, convention: str) -> list[Run]:
    """The runs; refuse none, runs on other sentences than the rest, or without the figures."""
    if not found.runs:
        raise UserError(
            f"there is no finished run in {folder} ({found.unfinished} unfinished, "
            f"{len(found.damaged)} damaged); train.py ends with writing test_scores.json"
        )
    old = [run.folder for run in found.runs if convention not in run.scores.get("conventions", {})]
    if old and convention != "paper":
        raise UserError(
            f"convention={convention}: the scores of {len(old)} runs (such as {old[0]}) were "
            "written by a version that did not count it; choose paper, or train them anew"
        )
    known = all(run.test_set for run in found.runs)  # the same name may stand for other text
    sets: dict[Any, str] = {}
    for run in found.runs:
        data = run.options["data.name"]
        sets.setdefault(run.test_set if known else data, f"{data} (such as {run.folder})")
    if len(sets) > 1:
        raise UserError(
            f"the runs in {folder} were tested on different data: {', '.join(sets.values())}. One "
            "picture needs one test set: point `runs` at a folder that holds runs on one of them"
        )
    return found.runs


@dataclass(frozen=True)
class _Work:
    """What was read and counted."""

    choices: Choices
    runs: Sequence[Run]
    names: Mapping[str, str]
    logs: Logs
    resampled: Mapping[str, Resampled]
    left_out: Sequence[str]

    @property
    def counted(self) -> tuple[str, str]:
        """Unit and convention."""
        return self.choices.counted_in, self.choices.convention


def _gather(choices: Choices, console: Console) -> _Work:
    """Read the runs, and say which were left out, and why."""
    folder = Path(choices.runs)
    found = find_runs(folder)
    check_writable(choices.target)
    logs = read_logs(found, folder)
    try:
        comparable(found, folder, choices.convention)
        resampled = resample_logs(found, logs, folder, choices.convention, choices.resamples)
        runs = comparable(found, folder, choices.convention)
    finally:
        for note in found.left_out:
            console.print(f"left out: {note}", markup=False, soft_wrap=True)
    _check_shown(choices, runs)
    if missing := len(runs) - len(logs):
        console.print(f"{missing} runs have no instances.log: no interval, no test, no paths")
    names = dict(zip([run.folder for run in runs], row_names(runs), strict=True))
    return _Work(choices, runs, names, logs, resampled, found.left_out)


def _check_shown(choices: Choices, runs: Sequence[Run]) -> None:
    shown = choices.shown
    found = sorted(run.figures(choices.convention)["BLEU"] for run in runs)
    if shown is not None and not any(shown[0] <= bleu <= shown[1] for bleu in found):
        raise UserError(
            f"quality is [{shown[0]:g},{shown[1]:g}], where no run is: their BLEU is "
            f"{found[0]:.2f} to {found[-1]:.2f}"
        )


def _write(work: _Work, published: Sequence[Published], console: Console) -> list[Path]:
    """Write all files."""
    choices, runs, to = work.choices, work.runs, work.choices.target
    rows = curve_rows(runs, work.resampled, choices.latencies, *work.counted)
    costs = [{"folder": run.folder, **run.cost} for run in runs]
    pairs = matched_pairs(runs, work.logs, work.resampled, *work.counted, choices.tolerance)
    written = [
        write_rows(rows, to / "curves.csv"),
        write_rows(costs, to / "cost.csv"),
        write_rows(pairs, to / "significance.csv", COLUMNS),
    ]
    selected = None if choices.select is None else _select(work, console)
    if selected is not None:
        console.print(selection_table(selected))
        written.append(write_rows(selected, to / "selected.csv"))
    curves = _draw(work, published, console)
    written += [path for curve in curves for path in curve.files]
    name = Path(choices.runs).resolve().name
    page = Page(
        name, runs, rows, work.names, *work.counted, choices.latencies, work.logs,
        choices.samples, curves, pairs, selected, work.left_out,
    )  # fmt: skip
    return [*written, write_report_page(page, to / "report.html")]


def _draw(work: _Work, published: Sequence[Published], console: Console) -> list[DrawnCurve]:
    """The curve of each latency that there is."""
    curves, said = [], list[str]()
    for latency in work.choices.latencies:
        lines, notes = published_series(published, latency, work.choices.counted_in)
        said += [note for note in notes if note not in said]
        drawn = write_curve(
            work.runs,
            lines,
            latency,
            *work.counted,
            work.choices.target,
            work.choices.shown,
        )
        if drawn is not None:
            curves.append(drawn)
    for note in said:
        console.print(f"published, not drawn: {note}", markup=False, soft_wrap=True)
    if not curves:
        latencies = ", ".join(work.choices.latencies)
        raise UserError(
            f"no run in {work.choices.runs} has {latencies} in {work.choices.counted_in}s: there "
            "is nothing to draw"
        )
    return curves


def _select(work: _Work, console: Console) -> list[dict[str, Any]]:
    """A run for each mechanism and range."""
    choices, folder = work.choices, Path(work.choices.runs)
    latency, unit = choices.selected_latency, choices.counted_in
    found = {run.folder: tested_checkpoint(folder, run, latency, unit) for run in work.runs}
    dev = {name: one for name, one in found.items() if one is not None}
    if averaged := [work.names[run.folder] for run in work.runs if run.folder not in dev]:
        console.print(
            f"not selected from, without development figures of what was tested (averaged "
            f"weights, or no metrics.csv): {', '.join(averaged)}", markup=False, soft_wrap=True
        )  # fmt: skip
    ranges = [(float(least), float(most)) for least, most in choices.ranges]
    rows = select_runs(work.runs, work.names, dev, ranges, latency, unit)
    if not rows:
        raise UserError("select: all runs read the whole sentence first; choose select=null")
    return rows
