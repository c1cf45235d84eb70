"""Schedules: when a head stops reading.

A schedule answers twice. `forward` gives the expected alignment `alpha` for training, rows at a
time, from a state that carries the row before. `step` gives the hard positions for inference,
one target step at a time, from whatever part of the source is at hand. Positions count from 1.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from fractions import Fraction
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from simulmt.attention.memory import Memory
from simulmt.attention.scores import Score, no_keys
from simulmt.ops import expected_alignment


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
        """The state before the first target step, for `forward`."""

    @abstractmethod
    def forward(
        self, query: Float[Tensor, "B T D"], memory: Memory, state: Tensor
    ) -> tuple[Float[Tensor, "B H T S"], Tensor]:
        """Expected alignment of T target steps, and the state after them."""

    @abstractmethod
    def known_stops(self, steps: int, memory: Memory, state: Tensor) -> Int[Tensor, "B H T"] | None:
        """Positions at the `steps` steps after `state`, None if only the energies can tell."""

    @abstractmethod
    def initial_position(self, memory: Memory) -> Int[Tensor, "B H"]:
        """The state before the first target step, for `step`."""

    @abstractmethod
    def step(
        self, query: Float[Tensor, "B 1 D"], memory: Memory, state: Int[Tensor, "B H"]
    ) -> Stand:
        """Decide one target step from what is at hand of the source."""


class Monotonic(Schedule):
    """Learned stopping, head by head (Raffel et al. 2017; MILk; MMA eq. 4).

    Having arrived at j in step i, a head stops there with probability
    `p_ij = sigmoid(e_ij + r + noise * N(0, 1))`; the noise is there in training only. At
    inference it stops at the first j, from where it stood, with `e_ij + r > 0`.

    Args:
        score: gives the selection energies `e`.
        heads: number of heads, each with its own `r`.
        noise: standard deviation of the pre-sigmoid noise.
        energy_bias: initial value of `r`; a negative one makes fresh heads read on.
        mass_preservation: whether a head must stop at EOS (MILk section 3.4); otherwise one that
            runs off the end has no context, and its delay counts as S.
    """

    learned = True
    offline = False

    def __init__(
        self,
        *,
        score: Score,
        heads: int,
        noise: float,
        energy_bias: float,
        mass_preservation: bool,
    ) -> None:
        super().__init__()
        if not 0 <= noise < math.inf:
            raise ValueError(f"noise is {noise}; a standard deviation is at least 0, and finite")
        if not math.isfinite(energy_bias):
            raise ValueError(f"energy_bias is {energy_bias}; it must be finite")
        self.score = score
        self.heads = heads
        self.noise = noise
        self.mass_preservation = mass_preservation
        self.energy_bias = nn.Parameter(torch.full((heads, 1, 1), float(energy_bias)))

    def keys(self, states: Float[Tensor, "B S D"]) -> Float[Tensor, "B H S d"]:
        """Keys of the selection score."""
        return self.score.keys(states)

    def energies(self, query: Float[Tensor, "B T D"], memory: Memory) -> Float[Tensor, "B H T S"]:
        """`e_ij + r`; the sum, if not the score, is in float32 at least."""
        energy: Tensor = self.score(query, memory.selection_keys)
        wide = torch.promote_types(energy.dtype, torch.float32)
        return energy.to(wide) + self.energy_bias

    def initial_state(self, memory: Memory) -> Float[Tensor, "B H S"]:
        """`alpha_0`: every head stands at the first position."""
        B, S = memory.mask.shape
        wide = torch.promote_types(memory.values.dtype, torch.float32)
        row = torch.zeros(B, self.heads, S, dtype=wide, device=memory.mask.device)
        row[..., 0] = 1.0
        return row

    def forward(
        self,
        query: Float[Tensor, "B T D"],
        memory: Memory,
        state: Float[Tensor, "B H S"],
    ) -> tuple[Float[Tensor, "B H T S"], Float[Tensor, "B H S"]]:
        """`alpha` of T steps after the row `state`; equations 1 and 2 of the papers."""
        energy = self.energies(query, memory)
        if self.training and self.noise > 0:
            energy = energy + self.noise * torch.randn_like(energy)
        stop = torch.sigmoid(energy)
        if self.mass_preservation:
            stop = stop.masked_fill(memory.last[:, None, None], 1.0)
        stop = stop.masked_fill(~memory.mask[:, None, None], 0.0)
        alpha = expected_alignment(stop, state)
        return alpha, alpha[..., -1, :]

    def known_stops(self, steps: int, memory: Memory, state: Tensor) -> None:
        """Nothing is known in advance."""

    def initial_position(self, memory: Memory) -> Int[Tensor, "B H"]:
        """Every head stands at position 1."""
        B = memory.mask.shape[0]
        return torch.ones(B, self.heads, dtype=torch.long, device=memory.mask.device)

    def step(
        self, query: Float[Tensor, "B 1 D"], memory: Memory, state: Int[Tensor, "B H"]
    ) -> Stand:
        """Scan on from where each head stood, to the first position that says stop."""
        go = self.energies(query, memory)[:, :, 0] > 0  # (B, H, S)
        if self.mass_preservation:
            go = go | memory.last[:, None]
        places = torch.arange(1, go.shape[-1] + 1, device=go.device)
        stops = go & memory.mask[:, None] & (places >= state[..., None])
        found = stops.any(-1)
        first = stops.to(torch.uint8).argmax(-1) + 1
        past_end = memory.length[:, None] + 1
        return Stand(
            position=first.where(found, 0),
            state=first.where(found, past_end),
            wants_to_read=(~found & ~memory.finished[:, None]).any(-1),
        )


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

    def forward(
        self, query: Float[Tensor, "B T D"], memory: Memory, state: Int[Tensor, "B H"]
    ) -> tuple[Float[Tensor, "B H T S"], Int[Tensor, "B H"]]:
        """`alpha` is one-hot, and known."""
        T, S = query.shape[1], memory.mask.shape[1]
        stops = self.known_stops(T, memory, state)
        wide = torch.promote_types(query.dtype, torch.float32)
        alpha = nn.functional.one_hot(stops - 1, S).to(wide)
        return alpha, state + T

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


SCHEDULES: dict[str, type[Schedule]] = {
    "full_sentence": FullSentence,
    "wait_k": WaitK,
    "monotonic": Monotonic,
}
"""What `mechanism.schedule` can name."""
