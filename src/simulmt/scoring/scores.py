"""What decoded sentences score, and how they were decoded; as JSON beside them.

A score travels with the signature of how it was counted, as in sacreBLEU.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

from simulmt.decoding.search import Search
from simulmt.scoring.conventions import CONVENTIONS


@dataclass(frozen=True)
class Score:
    """A figure, None if there was no sentence to count it on, and how it was counted."""

    value: float | None
    signature: str

    def __float__(self) -> float:
        """Return the figure; NaN if there is none."""
        return math.nan if self.value is None else float(self.value)

    def form(self, digits: int = 2) -> str:
        """Return the figure with so many digits; a dash if there is none."""
        return "–" if self.value is None else f"{self.value:.{digits}f}"


Figures: TypeAlias = Mapping[str, Score]
"""By name, in the order of a table."""


@dataclass(frozen=True)
class Text:
    """Files that were decoded instead of a split, and how many pairs were dropped, by reason."""

    source: str
    target: str
    dropped: Mapping[str, int]


@dataclass(frozen=True)
class Decoding:
    """How sentences were decoded.

    Attributes:
        checkpoint: The name of the checkpoint, such as `best`.
        split: Of the model's own data, or the name that other text was given.
        beam: Hypotheses kept; 1 is greedy.
        length_penalty: Of the beam search; None for greedy decoding.
        dials: Those that were set, whether or not to another value than in training.
        word_ms: How long a source word lasted, if the model decoded word by word with a clock.
        text: What was decoded instead of a split.
    """

    checkpoint: str
    split: str
    beam: int
    length_penalty: float | None = None
    dials: Mapping[str, float] = field(default_factory=dict)
    word_ms: float | None = None
    text: Text | None = None

    @classmethod
    def by(cls, search: Search, checkpoint: Path, split: str) -> Decoding:
        """Return what a search is; greedy decoding knows no length penalty."""
        penalty = None if search.beam == 1 else search.length_penalty
        return cls(checkpoint.stem, split, search.beam, penalty)


@dataclass(frozen=True)
class Computing:
    """Milliseconds of computing for each source word."""

    median: float
    p95: float
    max: float


@dataclass(frozen=True)
class ComputationAware:
    """Latencies in words with the computing time, over the sentences that it was measured on."""

    figures: Figures
    sentences: int


@dataclass(frozen=True)
class Scores:
    """Quality and latency of decoded sentences.

    `scores["paper", "word"]["DAL"]` is the DAL of a convention in a unit.

    Attributes:
        figures: Quality and latency by convention and unit.
        initial_delays: By unit, how many sentences have which first delay.
        sentences: How many were decoded.
        empty: How many predictions are empty; those have no latency.
        oracle: Latencies by unit of the reference, written as early as its alignment allows.
        computation_aware: Where the time of computing was measured.
        computing_ms: The same.
        attention_span: In subwords, where the positions of heads are known.
        decoding: None for sentences that come from elsewhere.

    Raises:
        ValueError: a figure of a convention is missing.
    """

    figures: Mapping[str, Mapping[str, Figures]]
    initial_delays: Mapping[str, Mapping[int, int]]
    sentences: int
    empty: int
    oracle: Mapping[str, Figures] = field(default_factory=dict)
    computation_aware: ComputationAware | None = None
    computing_ms: Computing | None = None
    attention_span: Score | None = None
    decoding: Decoding | None = None

    def __post_init__(self) -> None:
        for name, convention in CONVENTIONS.items():
            for unit in convention.units:
                if missing := {*convention.figures} - {*self[name, unit]}:
                    raise ValueError(f"{name} lacks {', '.join(sorted(missing))} in {unit}s")

    def __getitem__(self, counted: tuple[str, str]) -> Figures:
        """Return the figures of a convention in a unit."""
        convention, unit = counted
        return self.figures[convention][unit]
