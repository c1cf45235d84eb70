"""Schedules: policies that decide *inside* the attention of a layer when to read, head by head.

A schedule sees the decoder's states (Raffel et al. 2017; MILk; MMA). In training `plan` gives the
alignment of the heads of a layer: known positions, odds of stopping, or an expected alignment. At
inference `step` gives hard positions, from the part of the source that has been read. A frozen
recipe such as `Monotonic(noise=3.0, ...)` holds the options; `build` makes the schedule of one
layer from the recipe.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar, Generic

from jaxtyping import Float
from torch import Tensor, nn
from typing_extensions import TypeVar

from simulmt.attention.memory import Memory
from simulmt.attention.moment import Moment
from simulmt.attention.plan import Plan, Stand
from simulmt.attention.scores.score import ScoreFunction
from simulmt.attention.shapes import Keys, Queries
from simulmt.attention.state import State

ScheduleState = TypeVar("ScheduleState", bound=State, default=Any)
"""The state of a schedule between two calls in training."""
StepState = TypeVar("StepState", bound=State, default=Any)
"""The state of a schedule between two target steps of inference."""


class Schedule(nn.Module, ABC, Generic[ScheduleState, StepState]):
    """When the heads of one layer stop reading."""

    @abstractmethod
    def keys(self, states: Float[Tensor, "B S D"]) -> Keys:
        """Keys of the source states, computed once for each state."""

    @abstractmethod
    def initial_state(self, memory: Memory) -> ScheduleState:
        """The state before the first target step of training."""

    @abstractmethod
    def plan(self, query: Queries, memory: Memory, state: ScheduleState, moment: Moment) -> Plan:
        """The alignment of T target steps of training, with the schedule's weights and losses.

        Args:
            query: decoder states.
            memory: the whole source.
            state: `initial_state`, or what the call for the steps before left: the alignment of the
                last step, or the state of a plan with known stops.
            moment: how far the training is.
        """

    @abstractmethod
    def initial_position(self, memory: Memory) -> StepState:
        """The state before the first target step of inference, such as the positions of heads."""

    @abstractmethod
    def step(self, query: Queries, memory: Memory, state: StepState) -> Stand:
        """Decide one target step of inference from the part of the source that has been read.

        Args:
            query: decoder states.
            memory: the part that has been read; in a batch, the whole source. So the carried state
                must not depend on `memory.length` or `memory.finished`.
            state: `initial_position`, or the state of the stand before.
        """

    def readiness(self, query: Queries, memory: Memory) -> Float[Tensor, "B"] | None:
        """The log odds that the least willing head stops at the newest token that has been read.

        None for a schedule whose heads do not stop by probabilities.
        """
        return None


class ScheduleRecipe(ABC):
    """The options of a schedule."""

    learned: ClassVar[bool] = True
    """True if expected delays have a gradient, so that a latency loss can act."""
    offline: ClassVar[bool] = False
    """True if the whole source is read before the first target token."""
    dials: ClassVar[tuple[str, ...]] = ()
    """The options that trade quality for latency in a trained model."""
    losses: ClassVar[tuple[str, ...]] = ()
    """The names of its own losses, each of which needs a weight in `objective.terms`."""

    @property
    def leaks(self) -> bool:
        """True if heads may run off the end of the source, where they attend to nothing."""
        return False

    @abstractmethod
    def build(self, dim: int, heads: int, score: Callable[[int, int], ScoreFunction]) -> Schedule:
        """The schedule of one layer.

        Args:
            dim: width of queries and source states.
            heads: number of heads.
            score: the model's usual score for selection energies, built from width and heads.
        """
