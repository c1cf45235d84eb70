"""A finished run, or a further decoding of its test set: options, figures, lines of CSV files."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import Any, Literal, TypeAlias

from simulmt.analysis.runs.intervals import Resampled
from simulmt.decoding.instance import Instance
from simulmt.files.run_directory import Provenance, Training, Traits
from simulmt.latency import ADDED
from simulmt.parts.configuration import WEIGHTS
from simulmt.scoring.conventions import CONVENTIONS, UNITS
from simulmt.scoring.scores import Figures, Scores

Row: TypeAlias = dict[str, Any]
"""A line of a CSV file, by column."""
RunKind: TypeAlias = Literal["trained", "policy", "other", "published"]
"""How a line's models came to be: trained as they are, made simultaneous by a policy when decoding,
another system by its log, or published figures."""
_OF_MECHANISM = ("k", "emission_rate", "chunk", "window", "score", "noise", "mass_preservation")
_OF_TRAINING = ("parameters", "updates")
_COST = {"training_seconds": "seconds", "training_tokens_per_s": "tokens_per_second"}
_COST |= {key: key for key in ("seconds_since", "threads", "processes", "device")}
_COUNTED = ("AL", "AL_ref", "LAAL", "DAL", "AP", "CW")
DIGEST = "data.digest"
"""Added to the options of a trained run: the starts of the SHA-256 of its text for training."""


@dataclass(frozen=True)
class Run:
    """A finished run, or a further decoding of a run's test set.

    Attributes:
        path: The folder of the scores.
        folder: The same, relative to the folder that was searched.
        home: The run directory, relative to the same folder; for a run the same as `folder`.
        options: The run's configuration, flat: `{"mechanism.k": 3, ...}`.
        scores: The scores of the test set.
        traits: The kind of policy that the run trained.
        test_set: The digests of the test set's text; empty for an imported model.
        splits: The digests of the text of each split of its data.
        training: Size, length and speed of the training; None for an exported model, and for
            another system, of which only the log is known.
        provenance: Where the training comes from; None if that is not known.
        turned: Options of the decoding that differ from the run's: `{"k": 5}`; empty for a run.
        policy: The options of the policy that decoded; empty for the model's own decision.
        convention: How `figures` are counted.
        unit: The unit of the latencies of `figures`, one of the convention.
        metric: The quality in curves and tests: `BLEU`, or a name in `scored`.
        scored: The scores by other programs, by metric.
        log: The decoded test set; empty if the run has no log, or if the log was not read.
        resampled: The resampled quality and DAL of the log; None without the metric.
    """

    path: Path
    folder: str
    home: str
    options: Mapping[str, Any]
    scores: Scores
    traits: Traits
    test_set: str = ""
    splits: Mapping[str, str] = field(default_factory=dict)
    training: Training | None = None
    provenance: Provenance | None = None
    turned: Mapping[str, float] = field(default_factory=dict)
    policy: Mapping[str, Any] = field(default_factory=dict)
    convention: str = "paper"
    unit: str = "word"
    metric: str = "BLEU"
    scored: Figures = field(default_factory=dict)
    log: Sequence[Instance] = ()
    resampled: Resampled | None = None

    @property
    def mechanism(self) -> str:
        """The mechanism's name."""
        return str(self.options["mechanism.name"])

    @property
    def model(self) -> str:
        """The model's name; empty for another system."""
        return str(self.options.get("model.name", ""))

    @property
    def foreign(self) -> bool:
        """True if this is another system, of which only the log is known."""
        return not self.model

    @property
    def test_name(self) -> str:
        """The name of the decoded text: that of the data, or of other text."""
        decoding = self.scores.decoding
        return str(decoding.split if decoding and decoding.text else self.options["data.name"])

    @property
    def kind(self) -> RunKind:
        """How the model came to be."""
        return "other" if self.foreign else "policy" if self.policy else "trained"

    @property
    def is_decoding(self) -> bool:
        """True if this is a further decoding of a run's test set."""
        return bool(self.turned or self.policy)

    @property
    def offline(self) -> bool:
        """True if the whole sentence was read before the first word was written."""
        return self.traits.offline and not self.policy

    @property
    def weights(self) -> dict[str, float | None]:
        """The weights of latency and variance; those of the objective are copies, or overrides."""
        root = self.options
        found = {key: root.get(f"objective.{key}", root.get(key)) for key in WEIGHTS}
        return {key: None if value is None else float(value) for key, value in found.items()}

    def dials(self) -> list[str]:
        """Return the options that trade quality for latency: `["k=3"]`, `["lambda=0.2"]`."""
        values: Mapping[str, float | None] = self.traits.dials
        if self.traits.learned:
            values = {key: x for key, x in self.weights.items() if x or key == "lambda"}
        return [f"{name}={value:g}" for name, value in {**values, **self._of_decoding}.items()]

    @property
    def _of_decoding(self) -> dict[str, float]:
        """The numbers among the options of the decoding and its policy."""
        options = {**self.turned, **self.policy}.items()
        return {key: value for key, value in options if isinstance(value, int | float)}

    def option(self, key: str) -> Any:
        """Return an option; a dial as the decoding set it; None if the run lacks the option."""
        return self.turned.get(key.removeprefix("mechanism."), self.options.get(key))

    @property
    def figures(self) -> Figures:
        """Quality and latencies."""
        return {**self.scores[self.convention, self.unit], **self.scored}

    def value(self, name: str) -> float | None:
        """Return a figure; None if no sentence has it, or if its plugin was missing at scoring."""
        return self.figures[name].value if name in self.figures else None

    def number(self, name: str) -> float:
        """Return a figure; NaN where `value` is None."""
        return float(self.figures[name]) if name in self.figures else math.nan

    def row(self) -> Row:
        """Return a line of `curves.csv`; conventions other than `paper` add their own figures."""
        paper = self.scores.figures["paper"]
        row: Row = {"folder": self.folder, "mechanism": self.mechanism}
        row |= {name: self.option(f"mechanism.{name}") for name in _OF_MECHANISM}
        data = self.options["data.name"]
        row |= self.weights | {"seed": self.options.get("seed"), "model": self.model, "data": data}
        row |= {name: paper["word"][name].value for name in ("BLEU", "chrF")}
        row |= {f"{name}_{unit}": paper[unit][name].value for unit in UNITS for name in _COUNTED}
        for unit, name in product(UNITS, ADDED):
            row[f"{name}_{unit}"] = paper[unit][name].value if name in paper[unit] else None
        own = () if self.convention == "paper" else CONVENTIONS[self.convention].figures
        row |= {f"{name}_{self.convention}": self.figures[name].value for name in own}
        row |= {key: self.training and getattr(self.training, key) for key in _OF_TRAINING}
        row["signature"] = paper["word"]["BLEU"].signature.removeprefix("BLEU|")
        row["init_sha256"] = self.provenance and self.provenance.init_sha256
        row["policy"] = self.policy.get("name")
        words = [f"{name}={x:g}" for name, x in self._of_decoding.items()]
        words += [f"{k}={x}" for k, x in self.policy.items() if isinstance(x, str) and k != "name"]
        row["decoding"] = " ".join(words)
        return row

    def cost(self) -> Row:
        """Return a line of `cost.csv`: figures that another machine or day would change."""
        columns = {column: getattr(self.training, key, None) for column, key in _COST.items()}
        return {"folder": self.folder, **columns}
