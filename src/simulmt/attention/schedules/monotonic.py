"""Monotonic stopping, learned head by head (Raffel et al. 2017; MILk; MMA eq. 4; EMMA).

A head that has arrived at j in step i stops there with probability
`p_ij = sigmoid((e_ij + r) / temperature + noise * N(0, 1))`. The noise is added in training only.
At inference a head stops at the first j with `p_ij > threshold`, from its last position on.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

import torch
from annotated_types import Ge, Lt
from jaxtyping import Float, Int
from torch import Tensor, nn

from simulmt.attention.memory import Memory, places
from simulmt.attention.moment import Moment
from simulmt.attention.plan import Odds, Plan, Stand
from simulmt.attention.schedule import Schedule, ScheduleRecipe
from simulmt.attention.scores import Perceptron
from simulmt.attention.scores.score import ScoreFunction
from simulmt.attention.shapes import Energies, Keys, Queries
from simulmt.ops.precision import wide, wider
from simulmt.options import Finite, Positive, Weight, limited


@limited
@dataclass(frozen=True)
class Monotonic(ScheduleRecipe):
    """The options of monotonic stopping.

    Args:
        noise: standard deviation of the pre-sigmoid noise.
        energy_bias: initial value of `r`; fresh heads read on if it is negative.
        mass_preservation: whether a head must stop at EOS (MILk section 3.4). Otherwise a head may
            run off the end: then it has no context, and its delay counts as S.
        energies: what gives the energies `e`: the model's usual score, or EMMA's perceptrons.
        temperature: what energies are divided by; 0.2 in EMMA.
        threshold: the probability above which a head stops at inference.
    """

    dials: ClassVar[tuple[str, ...]] = ("threshold",)
    noise: Weight
    energy_bias: Finite
    mass_preservation: bool
    energies: Literal["usual", "perceptron"] = "usual"
    temperature: Positive = 1.0
    threshold: Annotated[float, Ge(1e-6), Lt(1)] = 0.5

    @property
    def leaks(self) -> bool:
        """Heads need not stop at EOS."""
        return not self.mass_preservation

    def build(self, dim: int, heads: int, score: Callable[[int, int], ScoreFunction]) -> Schedule:
        """The heads of one layer, each with an `r`, and their score."""
        make = Perceptron if self.energies == "perceptron" else score
        return MonotonicHeads(self, make(dim, heads), heads)


class MonotonicHeads(Schedule[Tensor, Tensor]):
    """The heads of one layer, each with its own `r`.

    Args:
        options: those of the recipe.
        score: gives the selection energies `e`.
        heads: number of heads H.
    """

    def __init__(self, options: Monotonic, score: ScoreFunction, heads: int) -> None:
        super().__init__()
        self.options = options
        self.score = score
        self.heads = heads
        self.energy_bias = nn.Parameter(torch.full((heads, 1, 1), float(options.energy_bias)))

    def keys(self, states: Float[Tensor, "B S D"]) -> Keys:
        """Keys of the selection score."""
        return self.score.keys(states)

    def energies(self, query: Queries, memory: Memory, certain: Tensor | None = None) -> Energies:
        """`(e_ij + r) / temperature` without noise, in float32 at least.

        Args:
            query: decoder states.
            memory: the part of the source that has been read.
            certain: (B, S), added to the energies: infinity where heads are sure to stop, minus
                infinity where they are sure to read on, else 0.
        """
        shift: Tensor = self.energy_bias  # (H, 1, 1)
        if certain is not None:
            shift = shift + certain[:, None, None]
        energy = wide(self.score(query, memory.selection_keys)) + shift
        temperature = self.options.temperature
        return energy if temperature == 1 else energy / temperature

    def logits(self, query: Queries, memory: Memory) -> Energies:
        """The logits of `p_ij`, with noise in training.

        p is 0 at padding and, where words are read as a whole, inside them. p is 1 at EOS where
        mass is preserved.
        """
        certain = torch.zeros_like(memory.mask, dtype=self.energy_bias.dtype)
        certain.masked_fill_(~memory.stops, -math.inf)
        if self.options.mass_preservation:
            certain.masked_fill_(memory.last, math.inf)
        energy = self.energies(query, memory, certain)
        if self.training and self.options.noise > 0:
            energy.add_(torch.randn_like(energy), alpha=self.options.noise)
        return energy

    def initial_state(self, memory: Memory) -> Float[Tensor, "B H S"]:
        """Every head stands at the first position."""
        B, S = memory.mask.shape
        dtype = wider(memory.values.dtype)
        row = torch.zeros(B, self.heads, S, dtype=dtype, device=memory.mask.device)
        row[..., 0] = 1.0
        return row

    def plan(self, query: Queries, memory: Memory, state: Tensor, moment: Moment) -> Plan:
        """The odds of stopping at each position."""
        return Plan(Odds(self.logits(query, memory), state))

    def initial_position(self, memory: Memory) -> Int[Tensor, "B H"]:
        """Every head stands at position 1."""
        B = memory.mask.shape[0]
        return torch.ones(B, self.heads, dtype=torch.long, device=memory.mask.device)

    def step(self, query: Queries, memory: Memory, state: Int[Tensor, "B H"]) -> Stand:
        """Move each head on from its last position to the first with `p_ij > threshold`."""
        threshold = self.options.threshold
        least = math.log(threshold / (1 - threshold))  # as a logit
        odds = self.logits(query, memory)[:, :, 0]  # (B, H, S)
        stops = (odds > least) & (places(state, odds.shape[-1]) >= state[..., None])
        stopped = stops.any(-1)
        first = stops.to(torch.uint8).argmax(-1) + 1
        past_end = memory.length[:, None] + 1
        return Stand(
            position=first.where(stopped, 0),
            state=first.where(stopped, past_end),
            wants_to_read=(~stopped & ~memory.finished[:, None]).any(-1),
        )

    def readiness(self, query: Queries, memory: Memory) -> Float[Tensor, "B"]:
        """The least of the heads' energies at the newest token (EMMA section 3.4)."""
        energies = self.energies(query, memory)[:, :, 0].amin(1)  # (B, S)
        return energies.gather(1, memory.length[:, None] - 1)[:, 0]
