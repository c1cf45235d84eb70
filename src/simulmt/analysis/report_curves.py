"""The curves of a report: a picture for each latency, for print and for the page."""

import io
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from markupsafe import Markup, escape
from matplotlib import rc_context
from matplotlib.figure import Figure

from simulmt.analysis.choices import Choices
from simulmt.analysis.curve import draw_curve
from simulmt.analysis.lines import Lines
from simulmt.analysis.points import Series, curve_series
from simulmt.analysis.run import Run
from simulmt.analysis.style import save


def write_curve(
    runs: Sequence[Run], published: Sequence[Series], latency: str, lines: Lines, choices: Choices
) -> tuple[list[Path], Markup] | None:
    """Draw the curve of one latency, as files and as part of the page.

    Args:
        runs: The runs to draw, at least one, all counted by one convention.
        published: Published lines to draw beside the runs.
        latency: The latency on the x axis.
        lines: The lines of the report.
        choices: The folder, the formats and the look of the pictures.

    Returns:
        The paths of the pictures, and the curve for the page, in which each point links to the
        details of its run; None if no run has that latency.
    """
    shown = {key: lines.titles[folder] for folder, key in lines.keys.items()}
    series = [
        replace(line, name=shown[line.name]) for line in curve_series(runs, latency, lines.keys)
    ]
    if not series:
        return None
    unit, convention = runs[0].unit, runs[0].convention
    oracles = [run.scores.oracle.get(unit, {}).get(latency) for run in runs]
    oracle = next((score.value for score in oracles if score is not None), None)
    axis = f"{latency} ({'share of the ' if latency == 'AP' else ''}source {unit}s)"
    axis += "" if convention == "paper" else f" by {convention}"
    renamed = [replace(line, name=lines.own.get(line.name, line.name)) for line in published]
    curve = ([*series, *renamed], axis, oracle, choices.quality)
    files = [choices.to / f"curve-{latency}.{suffix}" for suffix in choices.formats]
    save(draw_curve(*curve, choices.width, choices.font_size), files)
    places = {run.folder: place for place, run in enumerate(runs)}
    points = {point.runs[0]: point for line in series for point in line.points}
    names = lines.row_names([run for run in runs if run.folder in points])
    titles = {}
    for folder, point in points.items():
        seeds = f", mean of {len(point.runs)} seeds" if len(point.runs) > 1 else ""
        figures = f"BLEU {point.quality:.2f}, {latency} {point.latency:.2f}"
        titles[f"#run-{places[folder]}"] = f"{names[folder]}: {figures}{seeds}"
    figure = draw_curve(*curve)
    xs, ys = zip(*(point.place for point in points.values()), strict=True)
    targets = figure.axes[0].scatter(xs, ys, s=200, alpha=0, zorder=9)  # invisible
    targets.set_urls([*titles])
    about = f'role="img" aria-label="BLEU against {axis}; the figures are in the table of runs"'
    return files, _inline_svg(figure, latency, about, titles)


def _inline_svg(figure: Figure, name: str, role: str, titles: Mapping[str, str]) -> Markup:
    """Return the figure as an element of the page, the same text for the same figure.

    Its text stays text. A colour #rrggbb becomes `var(--rrggbb, #rrggbb)`, which a dark page sets.

    Args:
        figure: The figure.
        name: The prefix of all ids, unique within the page.
        role: The attributes that tell readers who do not see the figure what it is.
        titles: The text of each link, by address.
    """
    file = io.BytesIO()
    with rc_context({"svg.hashsalt": "simulmt", "svg.fonttype": "none"}):
        figure.savefig(file, format="svg", metadata={"Date": None})
    text = file.getvalue().decode("utf-8")
    text = text[text.index("<svg") :].strip()
    for tag in ("metadata", "style"):  # a style would be for the whole page
        text = re.sub(rf"\s*<{tag}\b.*?</{tag}>", "", text, flags=re.DOTALL)
    text = re.sub(r'\bid="', f'id="{name}-', text)
    text = text.replace("url(#", f"url(#{name}-")
    text = re.sub(r'xlink:href="#(?!run-)', f'xlink:href="#{name}-', text)
    text = re.sub(r"\b(fill|stroke): #([0-9a-f]{6})", r"\1: var(--\2, #\2)", text)
    for address, title in titles.items():  # the table has the same links for the keyboard
        link = f'<a tabindex="-1" xlink:href="{address}"><title>{escape(title)}</title>'
        text = text.replace(f'<a xlink:href="{address}">', link)
    return Markup(text.replace("<svg ", f'<svg class="drawn" {role} ', 1))
