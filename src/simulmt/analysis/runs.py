"""All finished runs of a folder: their table, their figures as CSV, their curve."""

from __future__ import annotations

import csv
import json
import math
import os
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from typing import Any

import yaml  # type: ignore[import-untyped, unused-ignore]
from rich.console import Console

from simulmt.analysis.curve import Point, Series, draw_curve
from simulmt.analysis.table import score_table
from simulmt.attention.mechanism import SCHEDULES
from simulmt.errors import UserError

LATENCIES = {
    "DAL": "DAL (source {unit}s)",
    "AL": "AL (source {unit}s)",
    "AP": "AP (share of the source {unit}s)",
    "LAAL": "LAAL (source {unit}s)",
}
UNITS = ("word", "subword")
_COUNTED = ("AL", "AL_ref", "LAAL", "DAL", "AP", "CW")
_SAME_MODEL = ("ckpt_path", "cache", "logger", "lambda", "objective.latency_weight",
               "objective.variance_weight", "trainer.progress", "trainer.log_every")  # fmt: skip


@dataclass(frozen=True)
class Run:
    """A finished run.

    Attributes:
        folder: Its directory, as seen from the folder that was searched.
        options: Its configuration, flat: `{"mechanism.k": 3, ...}`.
        scores: What `simulmt.scoring.score` returned.
        data: Name of its corpus.
        test_set: What identifies the text that was scored; empty if unknown.
    """

    folder: str
    options: Mapping[str, Any]
    scores: Mapping[str, Any]
    data: str
    test_set: str = ""

    @property
    def mechanism(self) -> str:
        """The mechanism's name."""
        return str(self.options["mechanism.name"])

    @property
    def offline(self) -> bool:
        """Whether it reads the whole sentence first."""
        return self._schedule("offline")

    @property
    def weights(self) -> dict[str, float]:
        """`lambda` and `lambda_var` as they were in force."""
        found = {}
        for name, key in (("lambda", "latency_weight"), ("lambda_var", "variance_weight")):
            value = self.options.get(f"objective.{key}")
            interpolated = value is None or isinstance(value, str)
            found[name] = float(self.options.get(name, 0.0) if interpolated else value)
        return found

    @property
    def dials(self) -> dict[str, float]:
        """What is turned to trade quality for latency."""
        if self._schedule("learned"):
            return {n: v for n, v in self.weights.items() if v or n == "lambda"}
        k = self.options.get("mechanism.k")
        return {} if k is None else {"k": k}

    def latency(self, name: str, unit: str = "word") -> float:
        """A latency; infinite if there was no sentence to count it on."""
        value = self.scores["latency"][unit][name]
        return math.inf if value is None else float(value)

    def _schedule(self, trait: str) -> bool:
        return bool(getattr(SCHEDULES.get(self.options["mechanism.schedule"]), trait, False))


@dataclass
class Found:
    """What a search came upon: runs, and what it could not use."""

    runs: list[Run] = field(default_factory=list)
    unfinished: int = 0
    damaged: list[str] = field(default_factory=list)


def report(options: Mapping[str, Any]) -> None:
    """Print the table of a folder's runs and write `curve.png`, `curve.svg` and `curve.csv` there.

    Args:
        options: `runs`, the folder; `latency` and `unit`, what the picture's x axis counts.

    Raises:
        UserError: a bad option, no finished run, or runs on different data.
    """
    folder, latency, unit = Path(str(options["runs"])), options["latency"], options["unit"]
    for name, value, choices in (("latency", latency, LATENCIES), ("unit", unit, UNITS)):
        if value not in choices:
            raise UserError(f"{name} is {value!r}; choose one of {', '.join(choices)}")
    found = find_runs(folder)
    console = Console(highlight=False)
    for note in found.damaged:
        console.print(f"left out: {note}", markup=False, soft_wrap=True)
    runs = _usable(found, folder)
    console.print(score_table(dict(zip(row_names(runs), (run.scores for run in runs), strict=True))))
    if found.unfinished:
        console.print(f"{_runs(found.unfinished)} in {folder} not finished", markup=False)
    paths = [folder / f"curve{suffix}" for suffix in (".png", ".svg", ".csv")]
    write_csv(runs, paths[2])
    series = curve_series(runs, latency, unit)
    if not series:
        raise UserError(f"no run in {folder} has a {unit} {latency}; choose another unit")
    oracles = (run.scores.get("oracle", {}).get(unit, {}).get(latency) for run in runs)
    oracle = next((value for value in oracles if value is not None), None)
    draw_curve(series, paths[:2], latency=LATENCIES[latency].format(unit=unit), oracle=oracle)
    console.print("curve: " + ", ".join(map(str, paths)), markup=False, soft_wrap=True)


def find_runs(folder: Path) -> Found:
    """Read all runs below a folder, sorted by mechanism and DAL.

    A run is a directory with `.hydra/config.yaml`, and finished once it has `test_scores.json`.
    """
    if not folder.is_dir():
        raise UserError(f"runs={folder}: there is no such folder; give one that holds runs")
    found = Found()
    for place, below, files in os.walk(folder):
        here = Path(place)
        if (here / ".hydra" / "config.yaml").is_file():
            below[:] = [name for name in below if name != "evaluation"]
            if "test_scores.json" not in files:
                found.unfinished += 1
                continue
            try:
                found.runs.append(_read(here, here.relative_to(folder).as_posix()))
            except (ValueError, KeyError, TypeError, AttributeError, yaml.YAMLError) as error:
                reason = f"{type(error).__name__}: {error}".splitlines()[0]
                found.damaged.append(f"{here} cannot be read ({reason})")
    found.damaged.sort()
    found.runs.sort(key=lambda run: (run.mechanism, run.latency("DAL"), run.folder))
    return found


def row_names(runs: Sequence[Run]) -> list[str]:
    """A name for each run, with the options it takes to tell it from the others."""
    variants = _variants(runs)
    names = [" ".join([variant, *_pairs(run.dials)]) for run, variant in zip(runs, variants, strict=True)]
    shared = Counter(names)
    for name in [name for name, count in shared.items() if count > 1]:
        places = [i for i, other in enumerate(names) if other == name]
        keys = _differing([runs[i] for i in places])
        for i in places:
            names[i] = " ".join([name, *_chosen(runs[i], keys)])
    again = Counter(names)
    return [f"{n} ({r.folder})" if again[n] > 1 else n for n, r in zip(names, runs, strict=True)]


def curve_series(runs: Sequence[Run], latency: str, unit: str) -> list[Series]:
    """The runs as lines of a picture: one for each mechanism, or variant of it or of the model.

    Runs without a latency have no place in it.
    """
    named = [(v, r) for v, r in zip(_variants(runs), runs, strict=True)]
    series = []
    for variant, group in groupby(sorted(named, key=lambda pair: pair[0]), key=lambda pair: pair[0]):
        members = [run for _, run in group if math.isfinite(run.latency(latency, unit))]
        if members:
            points = [
                Point(r.latency(latency, unit), r.scores["quality"]["BLEU"], _label(r))
                for r in members
            ]
            series.append(Series(variant, points, members[0].offline))
    return series
