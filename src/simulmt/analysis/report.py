"""The runs of a folder side by side: table, figures as CSV, curves, and one page of it all."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from simulmt.analysis.choices import Choices, read_choices
from simulmt.analysis.intervals import Resampled
from simulmt.analysis.logs import Logs, read_logs
from simulmt.analysis.names import row_names
from simulmt.analysis.published import Published, published_series, read_published
from simulmt.analysis.report_curves import DrawnCurve, write_curve
from simulmt.analysis.report_page import Page, write_report_page
from simulmt.analysis.runs import Row, Run, RunList, find_runs
from simulmt.analysis.selection import select_runs, tested_checkpoint
from simulmt.analysis.significance import COLUMNS, matched_pairs
from simulmt.analysis.table import score_table
from simulmt.analysis.target import check_writable, writing
from simulmt.analysis.terminal import left_columns, selection_table
from simulmt.analysis.tidy import curve_rows, write_rows
from simulmt.errors import UserError
from simulmt.options import Config
from simulmt.run_directory import INSTANCES, METRICS, SCORES


def report(options: Config, home: Path = Path()) -> None:
    """Print the table of a folder's runs, and write the files that compare them.

    These are `curves.csv`, `cost.csv`, `significance.csv`, `curve-DAL.png` and `.svg` (and so on
    for each latency), `report.html`, and with `select` also `selected.csv`.

    Args:
        options: as in `conf/report.yaml`.
        home: the folder above `experiments`.

    Raises:
        UserError: a bad option, no finished run, runs on different data, or a folder that cannot
            be written.
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


def comparable(listed: RunList, folder: Path) -> list[Run]:
    """Return the runs of a folder.

    Raises:
        UserError: there is none, or not all were tested on the same sentences.
    """
    if not listed.runs:
        raise UserError(
            f"there is no finished run in {folder} ({listed.unfinished} unfinished, "
            f"{len(listed.damaged)} damaged); train.py ends with writing {SCORES}"
        )
    sets: dict[str, str] = {}  # by digest, since the same name may stand for other text
    for run in listed.runs:
        sets.setdefault(run.test_set, f"{run.options['data.name']} (such as {run.folder})")
    if len(sets) > 1:
        raise UserError(
            f"the runs in {folder} were tested on different data: {', '.join(sets.values())}. One "
            "picture needs one test set: point `runs` at a folder that holds runs on one of them"
        )
    return listed.runs


@dataclass(frozen=True)
class _Work:
    """The runs, and the figures and logs to report."""

    choices: Choices
    runs: Sequence[Run]
    names: Mapping[str, str]
    logs: Logs
    resampled: Mapping[str, Resampled]
    left_out: Sequence[str]

    @property
    def counted(self) -> tuple[str, str]:
        """Unit and convention of latencies."""
        return self.choices.counted_in, self.choices.convention


def _gather(choices: Choices, console: Console) -> _Work:
    """Read the runs, and print which were left out, and why."""
    folder = Path(choices.runs)
    listed = find_runs(folder)
    check_writable(choices.target)
    try:
        comparable(listed, folder)
        logs, resampled = read_logs(listed, folder, choices.convention, choices.resamples)
        runs = comparable(listed, folder)
    finally:
        for note in listed.left_out:
            console.print(f"left out: {note}", markup=False, soft_wrap=True)
    _check_shown(choices, runs)
    if missing := len(runs) - len(logs):
        console.print(f"{missing} runs have no {INSTANCES}: no interval, no test, no paths")
    names = dict(zip([run.folder for run in runs], row_names(runs), strict=True))
    return _Work(choices, runs, names, logs, resampled, listed.left_out)


def _check_shown(choices: Choices, runs: Sequence[Run]) -> None:
    shown = choices.shown
    bleus = sorted(run.bleu(choices.convention) for run in runs)
    if shown is not None and not any(shown[0] <= bleu <= shown[1] for bleu in bleus):
        raise UserError(
            f"quality is [{shown[0]:g},{shown[1]:g}], where no run is: their BLEU is "
            f"{bleus[0]:.2f} to {bleus[-1]:.2f}"
        )


def _write(work: _Work, published: Sequence[Published], console: Console) -> list[Path]:
    """Write all files, and return their paths."""
    choices, runs, to = work.choices, work.runs, work.choices.target
    rows = curve_rows(runs, work.resampled, choices.latencies, *work.counted)
    costs: list[Row] = [{"folder": r.folder, **r.cost} for r in runs if not r.turned]
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
    """Draw the curve of each latency that some run has."""
    curves, left_out = [], dict[str, None]()
    for latency in work.choices.latencies:
        lines, notes = published_series(published, latency, work.choices.counted_in)
        left_out |= dict.fromkeys(notes)
        to, shown = work.choices.target, work.choices.shown
        drawn = write_curve(work.runs, lines, latency, *work.counted, to, shown)
        if drawn is not None:
            curves.append(drawn)
    for note in left_out:
        console.print(f"published, not drawn: {note}", markup=False, soft_wrap=True)
    if not curves:
        latencies = ", ".join(work.choices.latencies)
        raise UserError(
            f"no run in {work.choices.runs} has {latencies} in {work.choices.counted_in}s: there "
            "is nothing to draw"
        )
    return curves


def _select(work: _Work, console: Console) -> list[Row]:
    """Return a row for each mechanism and range."""
    choices, folder = work.choices, Path(work.choices.runs)
    latency, unit = choices.selected_latency, choices.counted_in
    trained = [run for run in work.runs if not run.turned]  # validation does not turn dials
    figures = {run.folder: tested_checkpoint(folder, run, latency, unit) for run in trained}
    dev = {name: known for name, known in figures.items() if known is not None}
    if averaged := [work.names[run.folder] for run in trained if run.folder not in dev]:
        console.print(
            f"not selected from, without development figures of what was tested (averaged "
            f"weights, or no {METRICS}): {', '.join(averaged)}", markup=False, soft_wrap=True
        )  # fmt: skip
    ranges = [(float(least), float(most)) for least, most in choices.ranges]
    rows = select_runs(trained, work.names, dev, ranges, latency, unit)
    if not rows:
        raise UserError("select: all runs read the whole sentence first; choose select=null")
    return rows
