"""The scores of decoded sentences, and how these were decoded; written as JSON.

A score travels with the signature of how it was counted, as in sacreBLEU.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

from simulmt.decoding.search import Search
from simulmt.decoding.writing import WORDS, Writing
from simulmt.latency import ADDED
from simulmt.models.eight_bit import Precision
from simulmt.scoring.conventions import CONVENTIONS


@dataclass(frozen=True)
class Score:
    """A value and its signature; the value is None if there was no sentence to count."""

    value: float | None
    signature: str

    def __float__(self) -> float:
        """Return the value; NaN if there is none."""
        return math.nan if self.value is None else float(self.value)

    def form(self, digits: int = 2) -> str:
        """Return the value with `digits` decimals; a dash if there is none."""
        return "–" if self.value is None else f"{self.value:.{digits}f}"


Figures: TypeAlias = Mapping[str, Score]
"""Scores by name, in the order of a table."""


@dataclass(frozen=True)
class Text:
    """Files that were decoded instead of a split.

    Attributes:
        source: The file of the sources.
        target: The file of the references.
        sha256: The digests of the text on both sides, wherever the files are.
        dropped: The number of dropped pairs by reason.
    """

    source: str
    target: str
    sha256: tuple[str, str]
    dropped: Mapping[str, int]


@dataclass(frozen=True)
class Decoding:
    """How sentences were decoded.

    Attributes:
        checkpoint: The name of the checkpoint, such as `best`.
        split: A split of the model's own data, or the name of other text.
        beam: Hypotheses kept; 1 is greedy.
        length_penalty: The penalty of the beam search; None for greedy decoding.
        dials: The dials that were set, even if to their values in training.
        word_ms: The duration of a source word, if the model decoded word by word.
        policy: The options of the policy; empty for the model's own decision.
        text: The files that were decoded instead of a split.
        context: The file of what preceded the sentences.
        weights: Rounded or not.
        sha256: The digest of the model, which changes when a run resumes; None in records of
            earlier versions.
    """

    checkpoint: str
    split: str
    beam: int
    length_penalty: float | None = None
    dials: Mapping[str, int | float] = field(default_factory=dict)
    word_ms: float | None = None
    policy: Mapping[str, Any] = field(default_factory=dict)
    text: Text | None = None
    context: str | None = None
    weights: Precision = "float32"
    sha256: str | None = field(default=None, compare=False)

    @classmethod
    def by(cls, search: Search, checkpoint: Path, split: str, sha256: str) -> "Decoding":
        """Return the decoding by a search; greedy decoding has no length penalty."""
        penalty = None if search.beam == 1 else search.length_penalty
        return cls(checkpoint.stem, split, search.beam, penalty, sha256=sha256)


@dataclass(frozen=True)
class Computing:
    """Milliseconds of computing for each source word."""

    median: float
    p95: float
    max: float


@dataclass(frozen=True)
class ComputationAware:
    """Latencies in words that include the computing time, over the measured sentences."""

    figures: Figures
    sentences: int


@dataclass(frozen=True)
class Scores:
    """Quality and latency of decoded sentences.

    `scores["paper", "word"]["DAL"]` is the DAL of a convention in a unit.

    Attributes:
        figures: Quality and latency by convention and unit.
        initial_delays: The number of sentences by unit and first delay.
        sentences: The number of decoded sentences.
        empty: The number of empty predictions, which have no latency.
        oracle: Latencies by unit of the reference, written as early as its alignment allows.
        computation_aware: None unless the computing time was measured.
        computing_ms: None unless the computing time was measured.
        attention_span: In subwords; None unless the positions of the heads are known.
        erasure: Words taken back for each word of the final texts; None without re-translation.
        decoding: How the sentences were decoded; None if unknown.
        writing: What a word is: the unit `word` counts characters where these are words.
        faithfulness: Sufficiency, necessity and hallucination rate; empty unless the word alignment
            of the references is known.

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
    erasure: Score | None = None
    decoding: Decoding | None = None
    writing: Writing = WORDS
    faithfulness: Figures = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name, convention in CONVENTIONS.items():
            for unit in convention.units:
                if missing := {*convention.figures} - {*ADDED} - {*self[name, unit]}:
                    raise ValueError(f"{name} lacks {', '.join(sorted(missing))} in {unit}s")

    def __getitem__(self, counted: tuple[str, str]) -> Figures:
        """Return the figures of a convention in a unit."""
        convention, unit = counted
        return self.figures[convention][unit]
