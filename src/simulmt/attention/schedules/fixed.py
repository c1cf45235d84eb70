"""Schedules that are known before anything is read: the full sentence, wait-k."""

from __future__ import annotations

from abc import ABC, abstractmethod
from fractions import Fraction

import torch
from jaxtyping import Float, Int
from torch import Tensor

from simulmt.attention.memory import Memory
from simulmt.attention.schedules.schedule import Schedule, Stand
from simulmt.attention.scores.score import no_keys


class FixedSchedule(Schedule, ABC):
    """A schedule that is known before anything is read; its state counts target steps."""

    learned = False

    def __init__(self, *, heads: int) -> None:
        super().__init__()
        self.heads = heads

    @abstractmethod
    def wanted(self, step: Int[Tensor, "*N"]) -> Int[Tensor, "*N"]:
        """Source tokens to be read before target step `step` (from 1), were there enough."""

    def keys(self, states: Float[Tensor, "B S D"]) -> Float[Tensor, "B H S 0"]:
        """Nothing is to be computed."""
        return no_keys(states, self.heads)

    def initial_state(self, memory: Memory) -> Int[Tensor, "B H"]:
        """No step has been taken."""
        return self.initial_position(memory)

    def initial_position(self, memory: Memory) -> Int[Tensor, "B H"]:
        """No step has been taken."""
        B = memory.mask.shape[0]
        return torch.zeros(B, self.heads, dtype=torch.long, device=memory.mask.device)

    def known_stops(
        self, steps: int, memory: Memory, state: Int[Tensor, "B H"]
    ) -> Int[Tensor, "B H T"]:
        """Positions of the heads at the `steps` target steps that follow `state`."""
        step = state[..., None] + torch.arange(1, steps + 1, device=state.device)
        return self.wanted(step).minimum(memory.length[:, None, None])

    def step(
        self, query: Float[Tensor, "B 1 D"], memory: Memory, state: Int[Tensor, "B H"]
    ) -> Stand:
        """Stand where the schedule says, or at the end of what there is."""
        wanted = self.wanted(state + 1)
        short = (wanted > memory.length[:, None]).any(-1)
        return Stand(
            position=self.known_stops(1, memory, state)[..., 0],
            state=state + 1,
            wants_to_read=short & ~memory.finished,
        )


class FullSentence(FixedSchedule):
    """Read the whole sentence first: ordinary, offline attention."""

    offline = True

    def wanted(self, step: Int[Tensor, "*N"]) -> Int[Tensor, "*N"]:
        """More than any sentence has."""
        return torch.full_like(step, torch.iinfo(step.dtype).max)


class WaitK(FixedSchedule):
    """`g_i = min(k + floor((i - 1) / r), S)` (STACL, Ma et al. 2019).

    Args:
        heads: number of heads, which all share the schedule.
        k: source tokens to read before the first target token.
        emission_rate: r, target tokens written for each source token read after that.
    """

    offline = False
    LARGEST = 1_000_000

    def __init__(self, *, heads: int, k: int, emission_rate: float) -> None:
        super().__init__(heads=heads)
        if not 1 <= k <= self.LARGEST:
            raise ValueError(
                f"k is {k}; wait-k reads 1 to {self.LARGEST:,} tokens before it writes"
            )
        if not 0.01 <= emission_rate <= 100:
            raise ValueError(f"emission_rate is {emission_rate}; it lies in [0.01, 100]")
        self.k = k
        self.rate = Fraction(str(emission_rate))  # exact: 33 / 1.1 is not 30 in floating point

    def wanted(self, step: Int[Tensor, "*N"]) -> Int[Tensor, "*N"]:
        """`k + floor((i - 1) / r)`."""
        return self.k + (step - 1) * self.rate.denominator // self.rate.numerator
