"""A mechanism: a schedule, a span, a score and a number of heads, chosen by name and options.

Each file of `conf/mechanism` describes one. Constructor signatures are the schema: every option
goes to the part whose constructor names it, and what no part names is an error.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from simulmt.attention.attention import Attention
from simulmt.attention.schedules import SCHEDULES, Schedule
from simulmt.attention.scores import SCORES, ScaledDotProduct, ScoreFactory, Uniform
from simulmt.attention.spans import SPANS, Span
from simulmt.options import asked_of, check, construct, pick

USUAL = "usual"
_GIVEN = {"score": None, "heads": None, "dim": None}  # by the model, not by the user


@dataclass(frozen=True)
class Usual:
    """What a family of models has where a mechanism leaves the choice to it."""

    selection: ScoreFactory
    """Energies of a learned schedule."""
    soft: ScoreFactory
    """Energies of a span that weighs."""
    many_heads: bool
    """Whether attention that is not monotonic has several heads."""
    projected: bool
    """Whether values and contexts are projected even for one head."""


HEADS: dict[str, Callable[[Usual], bool]] = {
    "one": lambda usual: False,
    "all": lambda usual: True,
    "usual": lambda usual: usual.many_heads,
}
"""What `mechanism.heads` can name: whether a mechanism has the model's heads, or one."""

_SMALLEST = Usual(ScaledDotProduct, ScaledDotProduct, many_heads=True, projected=True)


class Mechanism:
    """Builds the attention of each layer of a model.

    Args:
        name: how figures and messages call it.
        schedule: one of `SCHEDULES`.
        span: one of `SPANS`.
        heads: `one`, `all` heads of the model's, or as many as are `usual` in the model.
        options: what the constructors of the schedule and the span ask for, and `score` for a
            span that weighs: one of `SCORES`, or the `usual` one of the model.

    Raises:
        UserError: an unknown name, or an option that is missing, unknown or out of range.
    """

    def __init__(self, *, name: str, schedule: str, span: str, heads: str, **options: Any) -> None:
        self.name = name
        self._schedule = pick(SCHEDULES, schedule, "mechanism.schedule")
        self._span = pick(SPANS, span, "mechanism.span")
        self._many_heads = pick(HEADS, heads, "mechanism.heads")
        asked = asked_of(self._schedule, _GIVEN) | asked_of(self._span, _GIVEN)
        if self._span.scored:
            asked["score"] = str
        check(options, asked, "mechanism")
        self._score = options.pop("score", USUAL)
        pick({USUAL: None, **SCORES}, self._score, "mechanism.score")
        self._options = options
        self.attention(_SMALLEST, dim=1, heads=1)  # values out of range show here

    @property
    def learned(self) -> bool:
        """Whether stopping is learned, so that latency has a gradient."""
        return bool(self._schedule.learned)

    @property
    def offline(self) -> bool:
        """Whether it reads the whole sentence first."""
        return bool(self._schedule.offline)

    @property
    def dials(self) -> dict[str, float]:
        """The options that may be turned when decoding, since no weight depends on them."""
        return {"k": self._options["k"]} if "k" in asked_of(self._schedule, _GIVEN) else {}

    def attention(self, usual: Usual, *, dim: int, heads: int) -> Attention:
        """A fresh attention for a layer.

        Args:
            usual: what the model has where the mechanism leaves it the choice.
            dim: width of queries and source states.
            heads: the heads of a mechanism that takes all.
        """
        heads = heads if self._many_heads(usual) else 1
        given: dict[str, Any] = {"heads": heads, "dim": dim}
        if self._schedule.learned:
            given["score"] = usual.selection(dim, heads)
        schedule: Schedule = self._build(self._schedule, given)
        span: Span = self._build(self._span, given)
        soft = SCORES.get(self._score, usual.soft)
        score = soft(dim, heads) if span.scored else Uniform(heads)
        projected = usual.projected or heads > 1
        return Attention(schedule, span, score, heads, project=dim if projected else None)

    def _build(self, part: Callable[..., Any], given: Mapping[str, Any]) -> Any:
        options = {name: self._options[name] for name in asked_of(part, _GIVEN)}
        wanted = inspect.signature(part).parameters
        given = {name: value for name, value in given.items() if name in wanted}
        return construct(part, options, f"mechanism={self.name}", given)
