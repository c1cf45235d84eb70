"""A mechanism: a schedule, a span and a number of heads, chosen by name and options.

Each file of `conf/mechanism` describes one. Constructor signatures are the schema: every option
goes to the part whose constructor names it, and what no part names is an error.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

from simulmt.attention.attention import Attention
from simulmt.attention.schedules import FullSentence, Monotonic, Schedule, WaitK
from simulmt.attention.scores import ScaledDotProduct, Score, Uniform
from simulmt.attention.spans import Chunk, Lookback, Span, Stopped
from simulmt.errors import UserError

SCHEDULES: dict[str, type[Schedule]] = {
    "full_sentence": FullSentence,
    "wait_k": WaitK,
    "monotonic": Monotonic,
}
SPANS: dict[str, type[Span]] = {"stopped": Stopped, "chunk": Chunk, "lookback": Lookback}
HEADS = ("one", "all")


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
        self._schedule = _pick(SCHEDULES, schedule, "mechanism.schedule")
        self._span = _pick(SPANS, span, "mechanism.span")
        if heads not in HEADS:
            raise UserError(f"mechanism.heads is {heads!r}; choose one of {', '.join(HEADS)}")
        self._one_head = heads == "one"
        wanted = _asked_of(self._schedule) | _asked_of(self._span)
        _same_names(name, set(options), wanted)
        self._options = options
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
        needs = {"heads": heads}
        schedule_options = self._options_of(self._schedule)
        if self._schedule.learned:
            schedule_options["score"] = score(dim, heads)
        try:
            schedule = self._schedule(**needs, **schedule_options)
            span = self._span(**self._options_of(self._span))
        except ValueError as error:
            raise UserError(f"mechanism={self.name}: {error}") from None
        soft = score(dim, heads) if self._span.scored else Uniform(heads)
        return Attention(schedule, span, soft, dim, heads)

    def _options_of(self, part: Callable[..., Any]) -> dict[str, Any]:
        return {name: self._options[name] for name in _asked_of(part)}


def _asked_of(part: Callable[..., Any]) -> set[str]:
    """The options that a user gives: all the constructor asks for but what the model provides."""
    return set(inspect.signature(part).parameters) - {"score", "heads"}


def _pick(table: Mapping[str, Any], name: str, what: str) -> Any:
    if name not in table:
        raise UserError(f"{what} is {name!r}; choose one of {', '.join(table)}")
    return table[name]


def _same_names(mechanism: str, given: set[str], wanted: set[str]) -> None:
    listed = ", ".join(sorted(wanted)) or "none"
    for wrong, word in ((given - wanted, "no option"), (wanted - given, "no value for option")):
        if wrong:
            names = ", ".join(sorted(wrong))
            raise UserError(f"mechanism={mechanism} has {word} {names}; its options are: {listed}")
