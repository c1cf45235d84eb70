"""A mechanism: a schedule, a span and a number of heads, chosen by name and options.

Each file of `conf/mechanism` describes one. Constructor signatures are the schema: every option
goes to the part whose constructor names it, and what no part names is an error.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from simulmt.attention.attention import Attention
from simulmt.attention.schedules import SCHEDULES, Schedule
from simulmt.attention.scores import ScaledDotProduct, Score, Uniform
from simulmt.attention.spans import SPANS, Span
from simulmt.errors import UserError
from simulmt.options import asked_of, check, construct, pick

HEADS = ("one", "all")
_GIVEN = {"score": None, "heads": None}  # by the model, not by the user


class Mechanism:
    """Builds the attention of each layer of a model.

    Args:
        name: how figures and messages call it.
        schedule: one of `SCHEDULES`.
        span: one of `SPANS`.
        heads: `all` heads of the model's, or `one`.
        options: what the constructors of the schedule and the span ask for.

    Raises:
        UserError: an unknown name, or an option that is missing, unknown or out of range.
    """

    def __init__(self, *, name: str, schedule: str, span: str, heads: str, **options: Any) -> None:
        self.name = name
        self._schedule = pick(SCHEDULES, schedule, "mechanism.schedule")
        self._span = pick(SPANS, span, "mechanism.span")
        if heads not in HEADS:
            raise UserError(f"mechanism.heads is {heads!r}; choose one of {', '.join(HEADS)}")
        self._one_head = heads == "one"
        self._options = options
        asked = asked_of(self._schedule, _GIVEN) | asked_of(self._span, _GIVEN)
        check(options, asked, "mechanism")
        self.attention(ScaledDotProduct, dim=1, heads=1)  # values out of range show here

    @property
    def learned(self) -> bool:
        """Whether stopping is learned, so that latency has a gradient."""
        return bool(self._schedule.learned)

    @property
    def offline(self) -> bool:
        """Whether it reads the whole sentence first."""
        return bool(self._schedule.offline)

    def attention(self, score: Callable[[int, int], Score], *, dim: int, heads: int) -> Attention:
        """A fresh attention for a layer of width `dim` in a model with `heads` heads."""
        heads = 1 if self._one_head else heads
        given: dict[str, Any] = {"heads": heads}
        if self._schedule.learned:
            given["score"] = score(dim, heads)
        schedule: Schedule = self._build(self._schedule, given)
        span: Span = self._build(self._span, {})
        soft = score(dim, heads) if span.scored else Uniform(heads)
        return Attention(schedule, span, soft, dim, heads)

    def _build(self, part: Callable[..., Any], given: Mapping[str, Any]) -> Any:
        names = asked_of(part, _GIVEN)
        options = {name: self._options[name] for name in names}
        return construct(part, options, f"mechanism={self.name}", given)
