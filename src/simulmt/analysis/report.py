"""The runs of a folder side by side: a table, CSV files, curves, and one page of it all."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from rich.console import Console

from simulmt.analysis.choices import Choices, read_choices
from simulmt.analysis.intervals import Resampled
from simulmt.analysis.logs import Logs, read_logs, samples_of
from simulmt.analysis.names import row_names
from simulmt.analysis.path import interleaved
from simulmt.analysis.published import Published, published_series, read_published
from simulmt.analysis.report_curves import DrawnCurve, write_curve
from simulmt.analysis.runs import Row, Run, RunList, find_runs
from simulmt.analysis.selection import select_runs, tested_checkpoint, with_empty_ranges_together
from simulmt.analysis.significance import BETWEEN, COLUMNS, matched_pairs
from simulmt.analysis.staircase import word_staircase
from simulmt.analysis.table import left_columns, score_table, selection_table
from simulmt.analysis.target import check_writable, writing
from simulmt.analysis.templates import write_html
from simulmt.analysis.tidy import cost_rows, curve_rows, write_rows
from simulmt.errors import UserError
from simulmt.options import Config
from simulmt.run_directory import INSTANCES, METRICS, SCORES


def report(options: Config, home: Path = Path()) -> None:
    """Print the table of a folder's runs, and write the files that compare the runs.

    These are `curves.csv`, `cost.csv`, `significance.csv`, `curve-DAL.png` and `.svg` (and so on
    for each latency), `report.html`, and with `select` also `selected.csv`.

    Args:
        options: The options of `conf/report.yaml`.
        home: The folder above `experiments`.

    Raises:
        UserError: a bad option, no finished run, runs on different data, or a folder that cannot
            be written.
    """
    choices = read_choices(options)
    figures, folder = choices.published, home / "experiments"
    published = [p for f in figures for p in read_published(str(f), choices.latency, folder)]
    console = Console(highlight=False)
    console.width = max(console.width, 0 if console.is_terminal else 140)
    compared = _gather(choices, console)
    rows = {compared.names[run.folder]: run.scores for run in compared.runs}
    left = left_columns(compared.runs, choices.training)
    console.print(score_table(rows, left, choices.convention, choices.unit))
    with writing(choices.to):
        choices.to.mkdir(parents=True, exist_ok=True)
        written = _write(compared, published, console)
    console.print(f"written: {', '.join(map(str, written))}", markup=False, soft_wrap=True)


def comparable(listed: RunList, folder: Path) -> list[Run]:
    """Return the runs of a folder.

    Raises:
        UserError: there is none, or not all were tested on the same sentences.
    """
    if not listed.runs:
        raise UserError(
            f"there is no finished run in {folder} ({len(listed.begun)} unfinished, "
            f"{len(listed.damaged)} damaged); train.py ends with writing {SCORES}"
        )
    sets: dict[str, str] = {}  # by digest, since the same name may stand for different text
    for run in listed.runs:
        sets.setdefault(run.test_set, f"{run.options['data.name']} (such as {run.folder})")
    if len(sets) > 1:
        raise UserError(
            f"the runs in {folder} were tested on different data: {', '.join(sets.values())}. One "
            "picture needs one test set: point `runs` at a folder that holds runs on one of them"
        )
    return listed.runs


@dataclass(frozen=True)
class _Compared:
    """The runs that a report compares.

    Attributes:
        choices: The options of the report.
        runs: All runs, in the order of the table.
        names: The name of each run, by folder.
        logs: The decoded test sets, by folder.
        resampled: The resampled BLEU, by folder.
        left_out: The runs that cannot be used, with reasons.
    """

    choices: Choices
    runs: Sequence[Run]
    names: Mapping[str, str]
    logs: Logs
    resampled: Mapping[str, Resampled]
    left_out: Sequence[str]

    @property
    def counted(self) -> tuple[str, str]:
        """Unit and convention of latencies."""
        return self.choices.unit, self.choices.convention


def _gather(choices: Choices, console: Console) -> _Compared:
    """Read the runs, and print which were left out, and why."""
    listed = find_runs(choices.runs)
    check_writable(choices.to)
    try:
        comparable(listed, choices.runs)
        logs, resampled = read_logs(listed, choices.runs, choices.convention, choices.resamples)
        runs = comparable(listed, choices.runs)
    finally:
        for note in listed.left_out:
            console.print(f"left out: {note}", markup=False, soft_wrap=True)
    shown, bleus = choices.quality, sorted(run.bleu(choices.convention) for run in runs)
    if shown is not None and not any(shown[0] <= bleu <= shown[1] for bleu in bleus):
        raise UserError(
            f"quality is [{shown[0]:g},{shown[1]:g}], where no run is: their BLEU is "
            f"{bleus[0]:.2f} to {bleus[-1]:.2f}"
        )
    if missing := len(runs) - len(logs):
        console.print(f"{missing} runs have no {INSTANCES}: no interval, no test, no paths")
    return _Compared(choices, runs, row_names(runs), logs, resampled, listed.left_out)


def _write(compared: _Compared, published: Sequence[Published], console: Console) -> list[Path]:
    """Write all files, and return their paths."""
    choices, runs, to = compared.choices, compared.runs, compared.choices.to
    resampled, counted = compared.resampled, compared.counted
    rows = curve_rows(runs, resampled, choices.latency, *counted)
    pairs = matched_pairs(runs, compared.logs, resampled, *counted, choices.tolerance)
    written = [
        write_rows(rows, to / "curves.csv"),
        write_rows(cost_rows(runs), to / "cost.csv"),
        write_rows(pairs, to / "significance.csv", COLUMNS),
    ]
    selected = [] if choices.select is None else _select(compared, console)
    if selected:
        console.print(selection_table(selected))
        written.append(write_rows(selected, to / "selected.csv"))
    curves = _draw(compared, published, console)
    written += [path for curve in curves for path in curve.files]
    page = write_html(
        "report.html", to / "report.html", compared=compared, choices=choices, runs=runs,
        rows=rows, pairs=pairs, curves=curves, selected=with_empty_ranges_together(selected),
        folder=choices.runs.resolve().name, paths=samples_of(compared.logs, choices.samples),
        trained=sum(not run.turned for run in runs),
        places={run.folder: place for place, run in enumerate(runs)},
        suffix="" if choices.convention == "paper" else f"_{choices.convention}",
        BETWEEN=BETWEEN, asdict=asdict, zip=zip,
        interleaved=interleaved, word_staircase=word_staircase,
    )  # fmt: skip
    return [*written, page]


def _draw(
    compared: _Compared, published: Sequence[Published], console: Console
) -> list[DrawnCurve]:
    """Draw the curve of each latency that some run has."""
    choices, notes = compared.choices, dict[str, None]()
    curves = []
    for latency in choices.latency:
        lines, of_latency = published_series(published, latency, choices.unit)
        notes |= dict.fromkeys(of_latency)
        drawn = write_curve(
            compared.runs, lines, latency, *compared.counted, choices.to, choices.quality
        )
        curves += [drawn] if drawn else []
    for note in notes:
        console.print(f"published, not drawn: {note}", markup=False, soft_wrap=True)
    if not curves:
        raise UserError(
            f"no run in {choices.runs} has {', '.join(choices.latency)} in {choices.unit}s: there "
            "is nothing to draw"
        )
    return curves


def _select(compared: _Compared, console: Console) -> list[Row]:
    """Return a row for each mechanism and range."""
    choices, counted = compared.choices, (compared.choices.select.upper(), compared.choices.unit)
    trained = [run for run in compared.runs if not run.turned]  # validation does not turn dials
    figures = {run.folder: tested_checkpoint(choices.runs, run, *counted) for run in trained}
    dev = {folder: known for folder, known in figures.items() if known is not None}
    if averaged := [compared.names[run.folder] for run in trained if run.folder not in dev]:
        console.print(
            f"not selected from, without development figures of what was tested (averaged "
            f"weights, or no {METRICS}): {', '.join(averaged)}", markup=False, soft_wrap=True
        )  # fmt: skip
    ranges = [(float(least), float(most)) for least, most in choices.ranges]
    rows = select_runs(trained, compared.names, dev, ranges, *counted)
    if not rows:
        raise UserError("select: all runs read the whole sentence first; choose select=null")
    return rows
