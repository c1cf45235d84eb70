"""The runs of a folder side by side: a table, CSV files, curves, and one page of it all."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from markupsafe import Markup

from simulmt.analysis.figures.curve import draw_curve
from simulmt.analysis.figures.panels import DPI, FONT_SIZE, save
from simulmt.analysis.figures.path import interleaved, typical_places, word_staircase
from simulmt.analysis.page import REMEDY, TEMPLATES, inline_svg
from simulmt.analysis.report_options import MOST_RESAMPLES, ReportOptions, read_options
from simulmt.analysis.runs.found import RunList, comparable, find_runs
from simulmt.analysis.runs.logs import check_scored, read_logs, read_oracle, read_others
from simulmt.analysis.runs.run import Row, Run
from simulmt.analysis.tables.documents import document_rows
from simulmt.analysis.tables.lines import ReportLines, report_lines
from simulmt.analysis.tables.points import Series, curve_rows, curve_series
from simulmt.analysis.tables.published import read_published
from simulmt.analysis.tables.selection import select_runs
from simulmt.analysis.tables.significance import matched_pairs, quality_at, resampled_lines
from simulmt.analysis.tables.terminal import score_table, selection_table
from simulmt.errors import UserError
from simulmt.files.run_directory import INSTANCES, METRICS
from simulmt.options import Config
from simulmt.scoring.segments import DIGITS
from simulmt.system.console import console, say
from simulmt.system.disk import check_writable, write_rows, write_text, writing


def report(options: Config, home: Path = Path()) -> None:
    """Print the table of a folder's runs, and write the files that compare the runs.

    These are `curves.csv`, `cost.csv`, `matched.csv`, `significance.csv`, `documents.csv` and, with
    `select`, `selected.csv`, each if it has rows; the pictures `curve-DAL.png` and so on for each
    latency and format; and `report.html`.

    Args:
        options: The options of `conf/report.yaml`.
        home: The folder above `experiments`.

    Raises:
        UserError: a bad option, no finished run, runs on different data, or a folder that cannot
            be written.
    """
    chosen = read_options(options)
    published, undrawn, folder = dict[str, list[Series]](), dict[str, None](), home / "experiments"
    listed = find_runs(chosen.runs, test=chosen.test)
    unit = listed.runs[0].scores.writing.of_source(chosen.unit) if listed.runs else chosen.unit
    for name in chosen.latency:
        published[name], notes = read_published(chosen.published, name, unit, folder)
        undrawn |= dict.fromkeys(notes)
    _read(chosen, listed)
    drawn = {line.name for series in published.values() for line in series}
    lines = report_lines(listed.runs, chosen.line, chosen.labels, sorted(drawn))
    rows = {lines.names[run.folder]: run.scores for run in listed.runs}
    scored = {lines.names[run.folder]: run.scored for run in listed.runs}
    if chosen.quality:
        _check_quality(*chosen.quality, chosen.metric, listed.runs, published)
    with writing(chosen.to, REMEDY):  # first: a reader such as `head` may end the program
        chosen.to.mkdir(parents=True, exist_ok=True)
        written = _write(chosen, listed, lines, published)
    console.print(score_table(rows, chosen.convention, chosen.unit, scored))
    for run in (run for run in listed.runs if run.foreign):
        if missing := [name for name in chosen.latency if run.value(name) is None]:
            say(f"not drawn: {run.mechanism}: its log has no {', '.join(missing)} in {run.unit}s")
    for note in undrawn:
        say(f"published, not drawn: {note}")
    say(f"written: {', '.join(map(str, written))}")


def _check_quality(
    low: float,
    high: float,
    metric: str,
    runs: Sequence[Run],
    published: Mapping[str, Sequence[Series]],
) -> None:
    """Reject a range of quality that leaves a picture empty."""
    for latency, others in published.items():
        own = curve_series(runs, latency)
        found = [point.quality for line in (*own, *others) for point in line.points]
        if own and not any(low <= quality <= high for quality in found):
            between = f"those of {latency} lie between {min(found):g} and {max(found):g}"
            raise UserError(f"quality=[{low:g},{high:g}] holds no {metric}: {between}")


def _read(chosen: ReportOptions, listed: RunList) -> None:
    """Read the logs of runs and the others, and print which were left out, and why."""
    check_writable(chosen.to, REMEDY)
    read_logs(listed, chosen.convention, chosen.unit, chosen.metric, chosen.resamples)
    for note in listed.left_out:
        say(f"left out: {note}")
    runs = comparable(listed, chosen.runs)
    if missing := sum(run.resampled is None for run in runs):
        bleu = chosen.metric == "BLEU"
        why = f"no {INSTANCES}: no paths" if bleu else f"no {chosen.metric}: not drawn"
        say(f"{missing} runs have {why}, no interval, no test")
    if chosen.oracle:
        runs[:] = read_oracle(chosen.oracle, runs)
    if chosen.others:
        listed.runs += read_others(chosen.others, runs, chosen.resamples)
    check_scored(listed.runs, chosen.metric)


def _write(
    chosen: ReportOptions,
    listed: RunList,
    lines: ReportLines,
    published: Mapping[str, Sequence[Series]],
) -> list[Path]:
    """Write all files, and return their paths."""
    runs, to = listed.runs, chosen.to
    trained = [run for run in runs if not run.is_decoding and not run.foreign]
    rows = curve_rows(runs, chosen.latency)
    matched, pairs = _compare(chosen, runs, lines)
    documents = document_rows(chosen.runs)
    if selected := _select(chosen, runs, lines.names) if chosen.select else []:
        console.print(selection_table(selected))
    tables = {
        "curves": rows,
        "cost": [run.cost() for run in trained],
        "matched": matched,
        "significance": pairs,
        "documents": documents,
        "selected": selected,
    }
    written = [write_rows(found, to / f"{name}.csv") for name, found in tables.items() if found]
    for path in (to / f"{name}.csv" for name, found in tables.items() if not found):
        if path.exists():
            say(f"{path} is of an earlier report: this one has no rows for it")
    curves = []
    for latency, others in published.items():
        if not curve_series(runs, latency):
            unit = runs[0].scores.writing.of_source(chosen.unit)
            say(f"not drawn: no run has {latency} in {unit}s")
        else:
            files, svg = _draw(runs, others, latency, lines, chosen)
            written += files
            curves.append(svg)
    shown = {"rows": rows, "pairs": pairs, "selected": selected, "documents": documents}
    page = _write_page(chosen, listed, lines, trained=trained, curves=curves, **shown)
    return [*written, page]


def _compare(
    chosen: ReportOptions, runs: Sequence[Run], lines: ReportLines
) -> tuple[list[Row], list[Row]]:
    """Return the rows of `matched.csv` and `significance.csv`, and print what limits them."""
    resampled, at = resampled_lines(runs, lines.keys), chosen.compare_at
    matched, pairs = quality_at(resampled, at), matched_pairs(runs, resampled, at)
    if wide := [row for row in matched if row["gap"] > row["DAL"] / 3]:
        named = ", ".join(dict.fromkeys(str(row["line"]) for row in wide))
        say(
            f"{len(wide)} of {len(matched)} values in matched.csv are interpolated over more than "
            f"a third of their DAL ({named}): decode with dials in between, or do not rely on them"
        )
    if not pairs:
        say("no pair of lines to compare: no significance.csv")
    if chosen.resamples < (needed := 40 * len(pairs)):  # p is at least 2 / (resamples + 1)
        limit = f"cannot be below .05 with resamples={chosen.resamples}"
        more = f"give resamples={needed}, or " if needed <= MOST_RESAMPLES else "give "
        remedy = f"{more}fewer values in compare_at"
        say(f"p_holm of {len(pairs)} comparisons {limit}: {remedy}")
    return matched, pairs


def _write_page(
    chosen: ReportOptions, listed: RunList, lines: ReportLines, **tables: Sequence[object]
) -> Path:
    """Write the page, with a few typical sentences of each run, and return its path."""
    runs = listed.runs
    first = next((run.log for run in runs if run.log), ())
    samples = sorted(typical_places(first)[: chosen.samples]) if first else []
    page = TEMPLATES.get_template("report.html").render(
        choices=chosen,
        runs=runs,
        names=lines.names,
        left_out=listed.left_out,
        folder=chosen.runs.resolve().name,
        paths={run.folder: [run.log[i] for i in samples if i < len(run.log)] for run in runs},
        lines=lines.titles,
        firsts={lines.keys[run.folder]: run.folder for run in reversed(runs)},
        places={run.folder: place for place, run in enumerate(runs)},
        interleaved=interleaved,
        forms=_forms(runs),
        word_staircase=word_staircase,
        **tables,
    )
    write_text(chosen.to / "report.html", page)
    return chosen.to / "report.html"


def _forms(runs: Sequence[Run]) -> dict[str, str]:
    """Return how each metric of quality is printed."""
    scored = dict.fromkeys(name for run in runs for name in run.scored)
    return {"BLEU": "{:.2f}"} | dict.fromkeys(scored, f"{{:.{DIGITS}f}}")


def _draw(
    runs: Sequence[Run],
    published: Sequence[Series],
    latency: str,
    lines: ReportLines,
    chosen: ReportOptions,
) -> tuple[list[Path], Markup]:
    """Draw the curve of one latency that some run has.

    Returns:
        The paths of the pictures, and the curve for the page, in which each point links to the
        details of its run.
    """
    titles = {key: lines.titles[folder] for folder, key in lines.keys.items()}
    own = curve_series(runs, latency, lines.keys)
    series = [replace(line, name=titles[line.name]) for line in own]
    renamed = [replace(line, name=lines.own.get(line.name, line.name)) for line in published]
    oracles = (run.scores.oracle.get(chosen.unit, {}) for run in runs)
    oracle = next((scores[latency].value for scores in oracles if latency in scores), None)
    unit = runs[0].scores.writing.of_source(chosen.unit)
    axis = f"{latency} ({'share of the ' if latency == 'AP' else ''}source {unit}s)"
    axis += "" if chosen.convention == "paper" else f" by {chosen.convention}"
    files = [chosen.to / f"curve-{latency}.{suffix}" for suffix in chosen.formats]
    scale = chosen.font_size / FONT_SIZE
    curves, width = [*series, *renamed], chosen.width / scale
    figure = draw_curve(curves, axis, chosen.metric, oracle, chosen.quality, width)
    save(figure, files, dpi=DPI * scale)
    points = {point.runs[0]: point for line in series for point in line.points}
    places = {run.folder: place for place, run in enumerate(runs)}
    links, form = {}, _forms(runs)[chosen.metric]
    for folder, point in points.items():
        seeds = f", mean of {len(point.runs)} seeds" if len(point.runs) > 1 else ""
        figures = f"{chosen.metric} {form.format(point.quality)}, {latency} {point.latency:.2f}"
        links[f"#run-{places[folder]}"] = f"{lines.names[folder]}: {figures}{seeds}"
    xs, ys = zip(*(point.place for point in points.values()), strict=True)
    figure.axes[0].scatter(xs, ys, s=200, alpha=0, zorder=9, urls=[*links])  # invisible
    what = f"{chosen.metric} against {axis}; the figures are in the table of runs"
    about = f'role="img" aria-label="{what}"'
    return files, inline_svg(figure, latency, about, links)


def _select(chosen: ReportOptions, runs: Sequence[Run], names: Mapping[str, str]) -> list[Row]:
    """Return a row for each mechanism and range."""
    latency = str(chosen.select).upper()
    rows, unknown = select_runs(chosen.runs, runs, names, latency, chosen.ranges)
    if unknown:
        why = f"averaged weights, or no {METRICS}"
        say(f"select leaves out runs without development figures ({why}): {', '.join(unknown)}")
    if not rows:
        raise UserError("select: all runs read the whole sentence first; leave it out, with ranges")
    return rows
