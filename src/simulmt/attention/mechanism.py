"""A mechanism: when to read, where to look, how to weigh positions, and with how many heads.

    Mechanism(schedule=WaitK(k=3), span=Lookback())
    Mechanism(schedule=Monotonic(noise=3.0, energy_bias=-1.0, mass_preservation=True),
              span=Lookback(), heads="all")

Each file of `conf/mechanism` describes one; `simulmt.parts.builders` looks its names up.
"""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from simulmt.attention.attention import Attention
from simulmt.attention.clock import Clock, ClockRecipe, Embed, NeverDecides, SeveralStates
from simulmt.attention.schedule import ScheduleRecipe
from simulmt.attention.scores import ScoreFactory
from simulmt.attention.scores.score import Uniform
from simulmt.attention.spans import SpanRecipe
from simulmt.attention.usual import TRANSFORMER, Usual
from simulmt.errors import UserError
from simulmt.options import asked_of, check_options

Heads = Literal["one", "all", "usual"]
"""One head in each layer, all of the model's heads, or as many as are usual in the model."""
Unit = Literal["subword", "word"]
"""What a mechanism reads or writes at a time."""


@dataclass(frozen=True)
class Mechanism:
    """Builds the clock of a model and the attention of each of its layers.

    Args:
        schedule: when to read: a clock, which decides before the decoder, or a schedule, which
            decides inside its attention.
        span: where a head looks from where it stands.
        score: how a head weighs the positions that it sees; None for the model's usual score.
        heads: `one` in each layer, `all` of the model's, or as many as are `usual` in the model.
        name: how figures and messages call the mechanism.
        source_unit: what is read at a time; with `word` a clock counts words, and heads stop at
            ends of words only.
        target_unit: what is written at a time; with `word` all subwords of a word are written with
            one read length.
    """

    schedule: ClockRecipe | ScheduleRecipe
    span: SpanRecipe
    score: ScoreFactory | None = None
    heads: Heads = "usual"
    name: str = "mechanism"
    source_unit: Unit = "subword"
    target_unit: Unit = "subword"

    @property
    def reads_words(self) -> bool:
        """True if a source word is read as a whole."""
        return self.source_unit == "word"

    @property
    def writes_words(self) -> bool:
        """True if all subwords of a target word have one read length."""
        return self.target_unit == "word"

    @property
    def clocked(self) -> bool:
        """True if a clock decides for all layers and heads."""
        return isinstance(self.schedule, ClockRecipe)

    @property
    def learned(self) -> bool:
        """True if expected delays have a gradient, so that a latency loss can act."""
        return self.schedule.learned

    @property
    def offline(self) -> bool:
        """True if the whole sentence is read before the first target token."""
        return self.schedule.offline

    @property
    def confident(self) -> bool:
        """True if the model has a confidence in each token, and takes a prefix for a sentence."""
        return isinstance(self.schedule, ClockRecipe) and self.schedule.confident

    @property
    def several_states(self) -> bool:
        """True if the model chooses among several states of each target token."""
        return isinstance(self.schedule, SeveralStates)

    @property
    def dials(self) -> dict[str, float]:
        """The options that trade quality for latency in a trained model, with their values."""
        return {name: getattr(self.schedule, name) for name in self.schedule.dials}

    def turned(self, dials: Mapping[str, float]) -> "Mechanism":
        """The same mechanism with other values of its dials.

        Raises:
            UserError: a dial that the mechanism does not have, or a value of another type or out of
                range.
        """
        for name in sorted(set(dials) - set(self.dials)):
            known = f"its dials are {', '.join(self.dials)}" if self.dials else "it has none"
            raise UserError(
                f"dial.{name}={dials[name]} with mechanism={self.name}: {known}; leave "
                f"dial.{name} out"
            )
        kinds = asked_of(type(self.schedule))
        check_options(dials, {name: kinds[name] for name in dials}, "dial")
        schedule = dataclasses.replace(self.schedule, **dials)  # type: ignore[type-var]
        return dataclasses.replace(self, schedule=schedule)

    def clock(self, dim: int, embed: Embed) -> Clock:
        """The clock of a model of width `dim`; it never decides where a schedule decides."""
        if isinstance(self.schedule, ClockRecipe):
            return self.schedule.build(dim, embed)
        return NeverDecides(self.writes_words)

    def attention(self, dim: int, heads: int, usual: Usual = TRANSFORMER) -> Attention:
        """A fresh attention for one layer.

        Args:
            dim: width of queries and source states.
            heads: number of the model's heads, which a mechanism may take.
            usual: scores, heads and projections where the mechanism leaves the choice to the model.
        """
        many = usual.many_heads if self.heads == "usual" else self.heads == "all"
        heads = heads if many else 1
        schedule = None
        if isinstance(self.schedule, ScheduleRecipe):
            schedule = self.schedule.build(dim, heads, usual.selection)
        span = self.span.build(dim, heads)
        score = (self.score or usual.soft)(dim, heads) if span.traits.scored else Uniform(heads)
        project = dim if usual.projected or heads > 1 else None
        return Attention(schedule, span, score, heads, project)
