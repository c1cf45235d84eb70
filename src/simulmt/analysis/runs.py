"""All finished runs of a folder: their table, their figures as CSV, their curve."""

from __future__ import annotations

import csv
import json
import math
import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml  # type: ignore[import-untyped, unused-ignore]
from rich.console import Console

from simulmt.analysis.curve import Point, Series, draw_curve
from simulmt.analysis.table import score_table
from simulmt.attention.schedules import SCHEDULES
from simulmt.errors import UserError

LATENCIES, UNITS = ("DAL", "AL", "AP", "LAAL"), ("word", "subword")
_COUNTED = ("AL", "AL_ref", "LAAL", "DAL", "AP", "CW")
_WEIGHTS = {"lambda": "objective.latency_weight", "lambda_var": "objective.variance_weight"}
_NO_DIFFERENCE = ("ckpt_path", "cache", "logger", "trainer.progress", "trainer.log_every",
                  *_WEIGHTS, *_WEIGHTS.values())  # fmt: skip
_DAMAGE = (OSError, ValueError, KeyError, TypeError, AttributeError, yaml.YAMLError)


@dataclass(frozen=True)
class Run:
    """A finished run.

    Attributes:
        folder: Its directory, as seen from the folder that was searched.
        options: Its configuration, flat: `{"mechanism.k": 3, ...}`.
        scores: What `simulmt.scoring.score` returned.
        test_set: What identifies the text that was scored; empty if unknown.
    """

    folder: str
    options: Mapping[str, Any]
    scores: Mapping[str, Any]
    test_set: str

    @property
    def mechanism(self) -> str:
        """The mechanism's name."""
        return str(self.options["mechanism.name"])

    def trait(self, name: str) -> bool:
        """Whether its schedule is `offline` or `learned`."""
        return bool(getattr(SCHEDULES.get(self.options["mechanism.schedule"]), name, False))

    def weight(self, name: str) -> float:
        """`lambda` or `lambda_var` as it was in force."""
        value = self.options.get(_WEIGHTS[name])
        # not a number: an interpolation of the key at the root
        return float(value if isinstance(value, int | float) else self.options.get(name, 0))

    def dials(self) -> list[str]:
        """What is turned to trade quality for latency: `["k=3"]`, `["lambda=0.2"]`."""
        found = {"k": self.options["mechanism.k"]} if "mechanism.k" in self.options else {}
        if self.trait("learned"):
            weights = {name: self.weight(name) for name in _WEIGHTS}
            found = {name: value for name, value in weights.items() if value or name == "lambda"}
        return [f"{name}={value:g}" for name, value in found.items()]

    def latency(self, name: str, unit: str = "word") -> float:
        """A latency; infinite if there was no sentence to count it on."""
        value = self.scores["latency"][unit][name]
        return math.inf if value is None else float(value)

    def row(self) -> dict[str, Any]:
        """What `curve.csv` says of it."""
        options, quality, latencies = self.options, self.scores["quality"], self.scores["latency"]
        return {
            "folder": self.folder,
            "mechanism": self.mechanism,
            **{name: options.get(f"mechanism.{name}") for name in ("k", "chunk")},
            **{name: self.weight(name) for name in _WEIGHTS},
            "seed": options["seed"],
            "model": options["model.name"],
            "data": options["data.name"],
            **{name: float(quality[name]) for name in ("BLEU", "chrF")},
            **{f"{name}_{unit}": latencies[unit][name] for unit in UNITS for name in _COUNTED},
            "signature": quality["signature"],
        }


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
    console.width = max(console.width, 0 if console.is_terminal else 120)
    for note in found.damaged:
        console.print(f"left out: {note}", markup=False, soft_wrap=True)
    runs = _comparable(found, folder)
    console.print(score_table({n: r.scores for n, r in zip(row_names(runs), runs, strict=True)}))
    if found.unfinished:
        console.print(f"not finished, and not in the table: {found.unfinished} more", markup=False)
    png, svg, table = (folder / f"curve{suffix}" for suffix in (".png", ".svg", ".csv"))
    write_csv(runs, table)
    series = curve_series(runs, latency, unit)
    if not series:
        raise UserError(f"no run in {folder} has {latency} in {unit}s: there is nothing to draw")
    oracles = [r.scores["oracle"].get(unit, {}).get(latency) for r in runs if "oracle" in r.scores]
    axis = f"{latency} ({'share of the ' if latency == 'AP' else ''}source {unit}s)"
    draw_curve(series, [png, svg], latency=axis, oracle=next(iter(oracles), None))
    console.print(f"written: {png}, {svg}, {table}", markup=False, soft_wrap=True)


def find_runs(folder: Path) -> Found:
    """Read all runs below a folder, sorted by mechanism and DAL.

    A run is a directory with `.hydra/config.yaml`, and finished once it has `test_scores.json`.
    """
    if not folder.is_dir():
        raise UserError(f"runs={folder}: there is no such folder; give one that holds runs")
    found = Found()
    for place, below, files in os.walk(folder):
        here = Path(place)
        if not (here / ".hydra" / "config.yaml").is_file():
            continue
        below[:] = [name for name in below if name != "evaluation"]
        try:
            if "test_scores.json" in files:
                found.runs.append(_read(here, here.relative_to(folder).as_posix()))
            else:
                found.unfinished += 1
        except _DAMAGE as error:
            reason = f"{type(error).__name__}: {error}".splitlines()[0]
            found.damaged.append(f"{here} (test_scores.json or configuration damaged; {reason})")
    found.damaged.sort()
    found.runs.sort(key=lambda run: (run.mechanism, run.latency("DAL"), run.folder))
    return found


def row_names(runs: Sequence[Run]) -> list[str]:
    """A name for each run: mechanism, k or lambda, and what else tells it from the others."""
    names = [" ".join([v, *r.dials()]) for v, r in zip(_variants(runs), runs, strict=True)]
    for name in set(names):
        places = [i for i, other in enumerate(names) if other == name]
        keys = _differing([runs[i] for i in places])  # none if there is but one
        for i in places:
            names[i] = " ".join([name, *_chosen(runs[i], keys)])
    times = Counter(names)
    return [f"{n} ({r.folder})" if times[n] > 1 else n for n, r in zip(names, runs, strict=True)]


def curve_series(runs: Sequence[Run], latency: str, unit: str) -> list[Series]:
    """Lines of the runs that have a latency, one per mechanism or variant of it or its model."""
    lines: dict[str, tuple[list[Point], bool]] = {}
    for variant, run in zip(_variants(runs), runs, strict=True):
        if math.isfinite(run.latency(latency, unit)):
            label = ", ".join(run.dials()).replace("lambda", "λ").replace("_", "")
            point = Point(run.latency(latency, unit), run.row()["BLEU"], label)
            lines.setdefault(variant, ([], run.trait("offline")))[0].append(point)
    return [Series(name, *line) for name, line in sorted(lines.items())]


def write_csv(runs: Sequence[Run], path: Path) -> None:
    """One row per run, in full precision."""
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(runs[0].row()), lineterminator="\n")
        writer.writeheader()
        writer.writerows(run.row() for run in runs)


def _read(here: Path, name: str) -> Run:
    """A run whose scores can be shown; what is wrong raises whatever it raises."""
    config = yaml.safe_load((here / ".hydra" / "config.yaml").read_text(encoding="utf-8"))
    scores = json.loads((here / "test_scores.json").read_text(encoding="utf-8"))
    manifest = here / "manifest.json"
    text = manifest.read_text(encoding="utf-8") if manifest.is_file() else "{}"
    tested = json.loads(text).get("splits", {}).get("test", {})
    test_set = tested.get("source_sha256", "") + tested.get("target_sha256", "")
    run = Run(name, dict(_flat(config)), scores, test_set)
    score_table({name: scores})
    run.row(), run.dials(), run.latency("DAL")
    return run


def _comparable(found: Found, folder: Path) -> list[Run]:
    """The runs; refuse an empty folder, and runs that were not tested on the same sentences."""
    if not found.runs:
        raise UserError(
            f"there is no finished run in {folder} ({found.unfinished} unfinished, "
            f"{len(found.damaged)} damaged); train.py ends with writing test_scores.json"
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


def _variants(runs: Sequence[Run]) -> list[str]:
    """The mechanism of each run, with the options in which its own or its model's runs differ."""
    names = []
    for run in runs:
        keys = _differing([other for other in runs if other.mechanism == run.mechanism])
        keys = [k for k in keys if k.startswith(("mechanism.", "model.")) and k != "mechanism.k"]
        names.append(" ".join([run.mechanism, *_chosen(run, keys)]))
    return names


def _differing(runs: Sequence[Run]) -> list[str]:
    """Options that are not the same in all runs, in their order in the configuration."""
    keys = dict.fromkeys(key for run in runs for key in run.options)
    values = {key: {str(run.options.get(key)) for run in runs} for key in keys}
    return [k for k in keys if len(values[k]) > 1 and not k.startswith(_NO_DIFFERENCE)]


def _chosen(run: Run, keys: Sequence[str]) -> list[str]:
    return [f"{k.removeprefix('mechanism.')}={run.options[k]}" for k in keys if k in run.options]


def _flat(config: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in config.items():
        name = f"{prefix}{key}"
        yield from _flat(value, name + ".") if isinstance(value, Mapping) else [(name, value)]
