"""The finished runs of a folder, read from their directories."""

from __future__ import annotations

import csv
import json
import math
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml  # type: ignore[import-untyped, unused-ignore]

from simulmt.analysis.table import score_table
from simulmt.attention.schedules import SCHEDULES
from simulmt.errors import UserError
from simulmt.options import flat_options
from simulmt.scoring.conventions import CONVENTIONS

UNITS = ("word", "subword")
_OF_MECHANISM = ("k", "emission_rate", "chunk", "window", "score", "noise", "mass_preservation")
_COUNTED = ("AL", "AL_ref", "LAAL", "DAL", "AP", "CW")
WEIGHTS = {"lambda": "objective.latency_weight", "lambda_var": "objective.variance_weight"}
_CONFIG, _OF_HYDRA = "config.json", ".hydra/config.yaml"
_BEGUN = {"manifest.json", "metrics.csv", "checkpoints", "test_scores.json"}
_DAMAGE = (OSError, ValueError, KeyError, TypeError, AttributeError, csv.Error, yaml.YAMLError)


@dataclass(frozen=True)
class Run:
    """A finished run.

    Attributes:
        folder: Its directory, as seen from the folder that was searched.
        options: Its configuration, flat: `{"mechanism.k": 3, ...}`.
        scores: What `simulmt.scoring.score.score` returned.
        test_set: What identifies the text that was scored; empty if unknown.
        training: What `training.json` says; empty where there is none.
    """

    folder: str
    options: Mapping[str, Any]
    scores: Mapping[str, Any]
    test_set: str
    training: Mapping[str, Any] = field(default_factory=dict)

    @property
    def mechanism(self) -> str:
        """The mechanism's name."""
        return str(self.options["mechanism.name"])

    @property
    def model(self) -> str:
        """The model's name."""
        return str(self.options["model.name"])

    @property
    def parameters(self) -> int | None:
        """The size of its model, if known."""
        value = self.training.get("parameters")
        return None if value is None else int(value)

    @property
    def cost(self) -> dict[str, Any]:
        """What its training took: figures that another machine, or another day, would change."""
        names = ("seconds", "tokens_per_second", "threads", "processes", "device")
        seconds, speed, *rest = (self.training.get(name) for name in names)
        seconds, speed = (None if value is None else float(value) for value in (seconds, speed))
        own = dict(zip(names[2:], rest, strict=True))
        return {"training_seconds": seconds, "training_tokens_per_s": speed, **own}

    def trait(self, name: str) -> bool:
        """Whether its schedule is `offline` or `learned`."""
        return bool(getattr(SCHEDULES.get(self.options["mechanism.schedule"]), name, False))

    def weight(self, name: str) -> float:
        """`lambda` or `lambda_var` as it was in force."""
        value = self.options.get(WEIGHTS[name])
        # not a number: an interpolation of the key at the root
        return float(value if isinstance(value, int | float) else self.options.get(name, 0))

    def dials(self) -> list[str]:
        """What is turned to trade quality for latency: `["k=3"]`, `["lambda=0.2"]`."""
        found = {"k": self.options["mechanism.k"]} if "mechanism.k" in self.options else {}
        if self.trait("learned"):
            weights = {name: self.weight(name) for name in WEIGHTS}
            found = {name: value for name, value in weights.items() if value or name == "lambda"}
        return [f"{name}={value:g}" for name, value in found.items()]

    def figures(self, convention: str = "paper", unit: str = "word") -> Mapping[str, Any]:
        """BLEU and latencies as a convention has them; `paper` has them in both units."""
        if convention == "paper":
            return {"BLEU": self.scores["quality"]["BLEU"], **self.scores["latency"][unit]}
        own: Mapping[str, Any] = self.scores["conventions"][convention]
        return own

    def latency(self, name: str, unit: str = "word", convention: str = "paper") -> float:
        """A latency; infinite if there was no sentence to count it on."""
        value = self.figures(convention, unit)[name]
        return math.inf if value is None else float(value)

    def row(self, convention: str = "paper") -> dict[str, Any]:
        """What `curves.csv` says of it; any other convention than `paper` adds its own figures."""
        own = self.figures(convention)
        names = () if convention == "paper" else CONVENTIONS[convention].figures
        options, quality, latencies = self.options, self.scores["quality"], self.scores["latency"]
        return {
            "folder": self.folder,
            "mechanism": self.mechanism,
            **{name: options.get(f"mechanism.{name}") for name in _OF_MECHANISM},
            **{name: self.weight(name) for name in WEIGHTS},
            "seed": options["seed"],
            "model": self.model,
            "data": options["data.name"],
            **{name: float(quality[name]) for name in ("BLEU", "chrF")},
            **{f"{name}_{unit}": latencies[unit][name] for unit in UNITS for name in _COUNTED},
            **{f"{name}_{convention}": own[name] for name in names},
            "parameters": self.parameters,
            "updates": self.training.get("updates"),
            "signature": quality["signature"],
        }


@dataclass
class Found:
    """What a search came upon: runs, and what it could not use, with the reasons."""

    runs: list[Run] = field(default_factory=list)
    begun: list[str] = field(default_factory=list)
    damaged: list[str] = field(default_factory=list)

    @property
    def unfinished(self) -> int:
        """How many runs have no scores yet."""
        return len(self.begun)

    @property
    def left_out(self) -> list[str]:
        """What is wrong with each run that could not be used."""
        return self.damaged + self.begun


def find_runs(folder: Path) -> Found:
    """Read all runs below a folder, sorted by mechanism, model and DAL.

    A run is a directory with a configuration, in which training has begun: a command that was
    refused leaves none. It is finished once it has `test_scores.json`.
    """
    if not folder.is_dir():
        raise UserError(f"runs={folder}: there is no such folder; give one that holds runs")
    found = Found()
    for place, below, files in os.walk(folder):
        here = Path(place)
        configured = _CONFIG in files or (here / _OF_HYDRA).is_file()
        if not configured or _BEGUN.isdisjoint({*below, *files}):
            continue
        below[:] = [name for name in below if name != "evaluation"]
        try:
            if "test_scores.json" in files:
                found.runs.append(_read(here, here.relative_to(folder).as_posix()))
            else:
                found.begun.append(f"{here} (not finished: no test_scores.json{_reached(here)})")
        except _DAMAGE as error:
            reason = f"{type(error).__name__}: {error}".splitlines()[0]
            found.damaged.append(
                f"{here} (scores, training.json or configuration damaged; {reason})"
            )
    found.damaged.sort()
    found.begun.sort()
    found.runs.sort(key=lambda run: (run.mechanism, run.model, run.latency("DAL"), run.folder))
    return found


def read_config(run: Path) -> Any:
    """The configuration that a run was trained with.

    Runs of older versions have no file of their own for it, only Hydra's, which any later command
    with the same directory has rewritten, and whose interpolations are not resolved.
    """
    if (run / _CONFIG).is_file():
        return json.loads((run / _CONFIG).read_text(encoding="utf-8"))
    return yaml.safe_load((run / _OF_HYDRA).read_text(encoding="utf-8"))


def _read(here: Path, name: str) -> Run:
    """A run whose scores can be shown; what is wrong raises whatever it raises."""
    config = read_config(here)
    scores = json.loads((here / "test_scores.json").read_text(encoding="utf-8"))
    tested = _optional(here / "manifest.json").get("splits", {}).get("test", {})
    test_set = tested.get("source_sha256", "") + tested.get("target_sha256", "")
    run = Run(name, flat_options(config), scores, test_set, _optional(here / "training.json"))
    for unit in UNITS:
        score_table({name: scores}, unit=unit)
    for convention in CONVENTIONS:
        if convention in scores.get("conventions", {}):
            score_table({name: scores}, convention=convention)
    run.row(), run.cost, run.dials(), run.latency("DAL")
    return run


def _reached(here: Path) -> str:
    """How far an unfinished training got, as far as can be told."""
    try:
        with (here / "metrics.csv").open(newline="", encoding="utf-8") as file:
            steps = [int(row["step"]) for row in csv.DictReader(file)]
        return f"; update {max(steps) + 1}"
    except _DAMAGE:
        return ""


def _optional(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
