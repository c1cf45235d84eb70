"""The finished runs of a folder, and their further decodings, read from their directories."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeAlias

from simulmt.errors import UserError
from simulmt.options import flat_options
from simulmt.run_directory import (
    CONFIG,
    EVALUATED,
    EVALUATION,
    MANIFEST,
    SCORES,
    TRAINING,
    TRAITS,
    Training,
    Traits,
    has_begun,
    read_columns,
    read_json,
    read_record,
)
from simulmt.scoring.conventions import CONVENTIONS, UNITS
from simulmt.scoring.scores import Decoding, Figures, Scores

Row: TypeAlias = dict[str, Any]
"""A line of a CSV file, by column."""
_OF_MECHANISM = ("k", "emission_rate", "chunk", "window", "score", "noise", "mass_preservation")
_COUNTED = ("AL", "AL_ref", "LAAL", "DAL", "AP", "CW")
WEIGHTS = ("lambda", "lambda_var")


@dataclass(frozen=True)
class Run:
    """A finished run, or a further decoding of a run's test set.

    Attributes:
        folder: The folder of the scores, relative to the folder that was searched.
        home: The run directory, relative to the same folder; for a run the same as `folder`.
        options: The run's configuration, flat: `{"mechanism.k": 3, ...}`.
        scores: The scores of the test set.
        test_set: The digests of the test set's text.
        traits: The kind of policy that the run trained.
        training: Size, length and speed of the training.
        turned: Options of the decoding that differ from the run's: `{"k": 5}`; empty for a run.
    """

    folder: str
    home: str
    options: Mapping[str, Any]
    scores: Scores
    test_set: str
    traits: Traits
    training: Training
    turned: Mapping[str, float] = field(default_factory=dict)

    @property
    def mechanism(self) -> str:
        """The mechanism's name."""
        return str(self.options["mechanism.name"])

    @property
    def model(self) -> str:
        """The model's name."""
        return str(self.options["model.name"])

    def weight(self, name: str) -> float:
        """Return `lambda` or `lambda_var`."""
        return float(self.options[name])

    def dials(self) -> list[str]:
        """Return the options that trade quality for latency: `["k=3"]`, `["lambda=0.2"]`."""
        weights = {name: self.weight(name) for name in WEIGHTS} if self.traits.learned else {}
        weights = {name: value for name, value in weights.items() if value or name == "lambda"}
        return _listed({**weights, **self.traits.dials, **self.turned})

    def option(self, key: str) -> Any:
        """Return an option; a dial as the decoding set it; None if the run lacks the option."""
        return self.turned.get(key.removeprefix("mechanism."), self.options.get(key))

    def figures(self, convention: str = "paper", unit: str = "word") -> Figures:
        """Return quality and latencies by a convention; only `paper` has more than one unit."""
        units = CONVENTIONS[convention].units
        return self.scores[convention, unit if unit in units else units[0]]

    def bleu(self, convention: str = "paper") -> float:
        """Return the BLEU of a convention."""
        return float(self.figures(convention)["BLEU"])

    def latency(self, name: str, unit: str = "word", convention: str = "paper") -> float:
        """Return a latency; infinite if no sentence has a translation."""
        value = self.figures(convention, unit)[name].value
        return math.inf if value is None else float(value)

    def row(self, convention: str = "paper") -> Row:
        """Return a line of `curves.csv`; conventions other than `paper` add their own figures."""
        names = () if convention == "paper" else CONVENTIONS[convention].figures
        own, quality = self.figures(convention), self.figures()
        return {
            "folder": self.folder,
            "mechanism": self.mechanism,
            **{name: self.option(f"mechanism.{name}") for name in _OF_MECHANISM},
            **{name: self.weight(name) for name in WEIGHTS},
            "seed": self.options["seed"],
            "model": self.model,
            "data": self.options["data.name"],
            **{name: quality[name].value for name in ("BLEU", "chrF")},
            **{f"{name}_{unit}": self.figures(unit=unit)[name].value
               for unit in UNITS for name in _COUNTED},
            **{f"{name}_{convention}": own[name].value for name in names},
            "parameters": self.training.parameters,
            "updates": self.training.updates,
            "signature": quality["BLEU"].signature.removeprefix("BLEU|"),
            "decoding": " ".join(_listed(self.turned)),
        }  # fmt: skip


@dataclass
class RunList:
    """The runs of a folder, and with reasons those that are not finished or damaged."""

    runs: list[Run] = field(default_factory=list)
    begun: list[str] = field(default_factory=list)
    damaged: list[str] = field(default_factory=list)

    @property
    def left_out(self) -> list[str]:
        """Each run that cannot be used, with the reason."""
        return self.damaged + self.begun


def find_runs(folder: Path, decodings: bool = True) -> RunList:
    """Read all runs below a folder, sorted by mechanism, model and DAL.

    Args:
        folder: Searched at any depth for directories in which a training has begun.
        decodings: Whether to add the evaluations of each run's own test set with another dial or
            beam.

    Raises:
        UserError: there is no such folder.
    """
    if not folder.is_dir():
        raise UserError(f"runs={folder}: there is no such folder; give one that holds runs")
    listed = RunList()
    for place, below, files in os.walk(folder):
        here = Path(place)
        if not has_begun(here) and SCORES not in files:
            continue
        below[:] = [name for name in below if name != EVALUATION]
        if SCORES not in files:
            listed.begun.append(f"{here} (not finished: no {SCORES}{_reached(here)})")
            continue
        try:
            run = _read(here, here.relative_to(folder).as_posix())
        except (UserError, ValueError, KeyError, TypeError, AttributeError) as error:
            listed.damaged.append(f"{here} (cannot be used: {str(error).splitlines()[0]})")
            continue
        listed.runs.append(run)
        if decodings:
            listed.runs += _decodings(run, here, listed)
    listed.damaged.sort()
    listed.begun.sort()
    listed.runs.sort(key=lambda run: (run.mechanism, run.model, run.latency("DAL"), run.folder))
    return listed


def _listed(values: Mapping[str, float]) -> list[str]:
    return [f"{name}={value:g}" for name, value in values.items()]


def _read(here: Path, name: str) -> Run:
    """Return a run; a damaged run raises various errors."""
    tested = read_json(here / MANIFEST)["splits"]["test"]
    run = Run(
        folder=name,
        home=name,
        options=flat_options(read_json(here / CONFIG)),
        scores=read_record(here / SCORES, Scores),
        test_set=str(tested["source_sha256"]) + str(tested["target_sha256"]),
        traits=read_record(here / TRAITS, Traits),
        training=read_record(here / TRAINING, Training),
    )
    run.row(), run.dials()  # raise an error for a missing option
    return run


def _decodings(run: Run, here: Path, listed: RunList) -> Iterator[Run]:
    """Yield one evaluation of the run's test set for each decoding that differs from the run's."""
    seen: list[Mapping[str, float]] = [{}]
    for place in sorted((here / EVALUATION).glob(f"*/{EVALUATED}")):
        try:
            scores = read_record(place, Scores)
        except UserError as error:
            listed.damaged.append(f"{place.parent} ({error})")
            continue
        turned = _turned(run, scores.decoding)
        if turned not in seen:
            seen.append(turned)
            folder = "/".join((run.folder, EVALUATION, place.parent.name))
            yield replace(run, folder=folder, scores=scores, turned=turned)


def _turned(run: Run, decoding: Decoding | None) -> dict[str, float]:
    """Return the options in which a decoding of the run's test set differs; {} for other text."""
    own = run.scores.decoding
    if own is None or decoding is None:
        return {}
    same = replace(decoding, beam=own.beam, length_penalty=own.length_penalty, dials=own.dials)
    if same != own:  # another checkpoint, split or text, or a clock
        return {}
    dials = {**run.traits.dials, **own.dials}
    turned = {name: value for name, value in decoding.dials.items() if value != dials.get(name)}
    if decoding.beam != own.beam:
        turned["beam"] = decoding.beam
    if decoding.length_penalty not in (None, own.length_penalty):
        turned["length_penalty"] = decoding.length_penalty
    return turned


def _reached(here: Path) -> str:
    """Return the last update of an unfinished training, if its metrics tell."""
    try:
        return f"; update {max(int(step) for (step,) in read_columns(here, 'step')) + 1}"
    except (UserError, ValueError):
        return ""
