"""What every schedule offers: when a head stops reading.

A schedule answers twice. For training, rows at a time, it tells with what odds its heads stop
(`stopping`) or, where nothing is learned, where (`known_stops`). `step` gives the hard
positions for inference, one target step at a time, from whatever part of the source is at hand.
Positions count from 1.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import NamedTuple

from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from simulmt.attention.memory import Memory


class Stand(NamedTuple):
    """Where the heads stand at one target step of inference."""

    position: Int[Tensor, "B H"]
    """The last source position each head has read; 0 once it has run off the end."""
    state: Int[Tensor, "B H"]
    """What the schedule carries to the next target step."""
    wants_to_read: Bool[Tensor, "B"]
    """Whether some head has to see another source token before this step can be taken."""


class Schedule(nn.Module, ABC):
    """What every schedule offers to the attention that holds it."""

    learned: bool
    """Whether stopping is learned: then latency has a gradient."""
    offline: bool
    """Whether the whole source has to be read before the first target token."""

    @abstractmethod
    def keys(self, states: Float[Tensor, "B S D"]) -> Float[Tensor, "B H S d"]:
        """What is computed once for each source state."""

    @abstractmethod
    def initial_state(self, memory: Memory) -> Tensor:
        """The state before the first target step of training: `alpha_0`, or a count of steps."""

    @abstractmethod
    def known_stops(self, steps: int, memory: Memory, state: Tensor) -> Int[Tensor, "B H T"] | None:
        """Positions at the `steps` steps after `state`, None if only the energies can tell."""

    def stopping(self, query: Float[Tensor, "B T D"], memory: Memory) -> Float[Tensor, "B H T S"]:
        """Log odds of stopping at j, having arrived there; asked where this is learned."""
        raise NotImplementedError(f"{type(self).__name__} knows where its heads stop")

    @abstractmethod
    def initial_position(self, memory: Memory) -> Int[Tensor, "B H"]:
        """The state before the first target step, for `step`."""

    @abstractmethod
    def step(
        self, query: Float[Tensor, "B 1 D"], memory: Memory, state: Int[Tensor, "B H"]
    ) -> Stand:
        """Decide one target step from what is at hand of the source."""
