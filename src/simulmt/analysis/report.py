"""The runs of a folder side by side: their table, their figures as CSV, their curve."""

from __future__ import annotations

import csv
import math
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Column

from simulmt.analysis.curve import Point, Series, draw_curve
from simulmt.analysis.runs import UNITS, WEIGHTS, Found, Run, find_runs
from simulmt.analysis.table import score_table
from simulmt.conventions import find_convention
from simulmt.errors import UserError

LATENCIES = ("DAL", "AL", "AP", "LAAL")
_NO_DIFFERENCE = ("ckpt_path", "cache", "logger", "trainer.progress", "trainer.log_every",
                  *WEIGHTS, *WEIGHTS.values())  # fmt: skip


def report(options: Mapping[str, Any]) -> None:
    """Print the table of a folder's runs and write `curve.png`, `curve.svg` and `curve.csv` there.

    Args:
        options: `runs`, the folder; `convention`, by which all is counted; `latency` and `unit`,
            what the picture's x axis counts; `training`, whether the table shows the models'
            size and training speed.

    Raises:
        UserError: a bad option, no finished run, runs on different data, or a run whose scores
            are older than the convention.
    """
    folder, (convention, latency, unit) = Path(str(options["runs"])), _counted(options)
    if not isinstance(options["training"], bool):
        raise UserError(f"training is {options['training']!r}; choose true or false")
    found = find_runs(folder)
    console = Console(highlight=False)
    console.width = max(console.width, 0 if console.is_terminal else 140)
    for note in found.damaged:
        console.print(f"left out: {note}", markup=False, soft_wrap=True)
    runs = comparable(found, folder, convention)
    rows = {name: run.scores for name, run in zip(row_names(runs), runs, strict=True)}
    console.print(score_table(rows, _left_columns(runs, options["training"]), convention))
    if found.unfinished:
        console.print(f"not finished, and not in the table: {found.unfinished} more", markup=False)
    png, svg, table = (folder / f"curve{suffix}" for suffix in (".png", ".svg", ".csv"))
    write_csv(runs, table, convention)
    series = curve_series(runs, latency, unit, convention)
    if not series:
        raise UserError(f"no run in {folder} has {latency} in {unit}s: there is nothing to draw")
    oracles = [r.scores["oracle"].get(unit, {}).get(latency) for r in runs if "oracle" in r.scores]
    axis = f"{latency} ({'share of the ' if latency == 'AP' else ''}source {unit}s)"
    axis += "" if convention == "paper" else f" by {convention}"
    draw_curve(series, [png, svg], latency=axis, oracle=next(iter(oracles), None))
    console.print(f"written: {png}, {svg}, {table}", markup=False, soft_wrap=True)


def _counted(options: Mapping[str, Any]) -> tuple[str, str, str]:
    """Convention, latency and unit. In `paper` alone the unit is free: it counts both."""
    name, latency, unit = (options[key] for key in ("convention", "latency", "unit"))
    convention = find_convention(name)
    free = name == "paper"
    unit = convention.unit if unit is None else unit
    latencies = LATENCIES if free else convention.latencies
    units = UNITS if free else (convention.unit,)
    for key, value, choices in (("latency", latency, latencies), ("unit", unit, units)):
        if value not in choices:
            where = "" if free else f" with convention={name}"
            raise UserError(f"{key} is {value!r}{where}; choose one of {', '.join(choices)}")
    return name, latency, unit


def row_names(runs: Sequence[Run]) -> list[str]:
    """A name for each run: mechanism, model if there are several, k or lambda, and what differs."""
    names = [" ".join([v, *r.dials()]) for v, r in zip(variants(runs), runs, strict=True)]
    for name in set(names):
        places = [i for i, other in enumerate(names) if other == name]
        keys = _differing([runs[i] for i in places])  # none if there is but one
        for i in places:
            names[i] = " ".join([name, *_chosen(runs[i], keys)])
    times = Counter(names)
    return [f"{n} ({r.folder})" if times[n] > 1 else n for n, r in zip(names, runs, strict=True)]


def _left_columns(runs: Sequence[Run], training: bool) -> list[tuple[Column, list[str]]]:
    """What the table says of each run before its scores."""
    models = list(dict.fromkeys(run.model for run in runs))
    names: dict[str, str] = {}
    for model in models:  # each for itself, as the model has a column
        group = [run for run in runs if run.model == model]
        names |= {run.folder: name for run, name in zip(group, row_names(group), strict=True)}
    columns = [(Column("", overflow="fold"), [names[run.folder] for run in runs])]
    if len(models) > 1:
        columns.append((Column("model"), [run.model for run in runs]))
    if training:
        for title, values in (
            ("parameters", [run.parameters for run in runs]),
            ("training\ntokens/s", [run.speed for run in runs]),
        ):
            cells = ["–" if value is None else f"{value:,.0f}" for value in values]
            columns.append((Column(title, justify="right"), cells))
    return columns


def curve_series(
    runs: Sequence[Run], latency: str, unit: str, convention: str = "paper"
) -> list[Series]:
    """Lines of the runs that have a latency, one per mechanism, model and variant of them."""
    lines: dict[str, tuple[list[Point], bool]] = {}
    for variant, run in zip(variants(runs), runs, strict=True):
        value = run.latency(latency, unit, convention)
        if math.isfinite(value):
            label = ", ".join(run.dials()).replace("lambda", "λ").replace("_", "")
            point = Point(value, float(run.figures(convention)["BLEU"]), label)
            lines.setdefault(variant, ([], run.trait("offline")))[0].append(point)
    return [Series(name, *line) for name, line in sorted(lines.items())]


def write_csv(runs: Sequence[Run], path: Path, convention: str) -> None:
    """One row per run, in full precision."""
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(runs[0].row(convention)), lineterminator="\n")
        writer.writeheader()
        writer.writerows(run.row(convention) for run in runs)


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


def variants(runs: Sequence[Run], axis: Collection[str] = ("mechanism.k",)) -> list[str]:
    """Mechanism and, if there are several, model of each run, and how it differs from its like.

    Args:
        runs: What is to be told apart.
        axis: Options along which a picture's line runs; they make no difference.
    """
    several = len({run.model for run in runs}) > 1
    names = []
    for run in runs:
        kind = [run.mechanism, run.model] if several else [run.mechanism]
        alike = [o for o in runs if (o.mechanism, o.model) == (run.mechanism, run.model)]
        keys = _differing(alike)
        keys = [k for k in keys if k.startswith(("mechanism.", "model.")) and k not in axis]
        names.append(" ".join([*kind, *_chosen(run, keys)]))
    return names


def _differing(runs: Sequence[Run]) -> list[str]:
    """Options that are not the same in all runs, in their order in the configuration."""
    keys = dict.fromkeys(key for run in runs for key in run.options)
    values = {key: {str(run.options.get(key)) for run in runs} for key in keys}
    return [k for k in keys if len(values[k]) > 1 and not k.startswith(_NO_DIFFERENCE)]


def _chosen(run: Run, keys: Sequence[str]) -> list[str]:
    return [f"{k.removeprefix('mechanism.')}={run.options[k]}" for k in keys if k in run.options]
