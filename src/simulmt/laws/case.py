"""What a law checks: a mechanism on a model; and how it reports that it is broken."""

from collections.abc import Callable
from dataclasses import dataclass

import torch

from simulmt.attention import Mechanism, Moment, Plan
from simulmt.attention.memory import Memory
from simulmt.attention.plan import Expected, Stops
from simulmt.attention.schedule import Schedule, ScheduleRecipe
from simulmt.attention.state import State
from simulmt.laws.small import Make, vary
from simulmt.models.model import Model

CERTAIN = 1e9
"""A factor for log odds that makes decisions certain."""
NEAR = 1e-9
"""Far above rounding in float64, and far below any real difference."""


def certain(schedule: Schedule) -> None:
    """Scale the odds that a schedule plans in training until they are 0 or infinite."""
    plan = schedule.plan

    def scaled(query: torch.Tensor, memory: Memory, state: State, moment: Moment) -> Plan:
        found = plan(query, memory, state, moment)
        odds = found.alignment
        if isinstance(odds, Expected):
            raise AssertionError(
                "The schedule plans an `Expected` alignment: pass `sharpen=`, a function that "
                "makes the schedule's decisions certain."
            )
        if isinstance(odds, Stops):
            return found
        return found._replace(alignment=odds._replace(logit=odds.logit * CERTAIN))

    schedule.plan = scaled  # type: ignore[method-assign]


@dataclass(frozen=True)
class Case:
    """A mechanism on a model.

    Args:
        mechanism: the mechanism.
        make: builds the model.
        sharpen: makes the decisions of a schedule certain in training.
    """

    mechanism: Mechanism
    make: Make
    sharpen: Callable[[Schedule], object] = certain

    def model(self, seed: int = 0) -> Model:
        """Return a fresh model in float64 and evaluation mode; its heads make varied decisions."""
        torch.manual_seed(seed)
        made = self.make(mechanism=self.mechanism).double().eval()
        vary(made)
        return made

    @property
    def leaks(self) -> bool:
        """True if heads may run off the end of the source."""
        schedule = self.mechanism.schedule
        return isinstance(schedule, ScheduleRecipe) and schedule.leaks


class VacuousError(AssertionError):
    """A law says nothing, because the case that it is about has not occurred."""


def demand(holds: bool | torch.Tensor, otherwise: str) -> None:
    """Require a condition.

    Raises:
        AssertionError: the condition does not hold.
    """
    if not holds:
        raise AssertionError(otherwise)


def same(actual: object, expected: object, what: str, atol: float = NEAR) -> None:
    """Require that two tensors, or tuples of tensors, are the same up to rounding.

    Raises:
        AssertionError: they differ; the message gives the place and the size of the difference.
    """
    torch.testing.assert_close(
        actual, expected, rtol=0, atol=atol, msg=lambda found: f"{what}. {found}"
    )
