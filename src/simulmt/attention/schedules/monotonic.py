"""Learned stopping, head by head (Raffel et al. 2017; MILk; MMA)."""

from __future__ import annotations

import math

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from simulmt.attention.memory import Memory
from simulmt.attention.schedules.schedule import Schedule, Stand
from simulmt.attention.scores.score import Score


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
        return self._shifted(query, memory, self.energy_bias)

    def _shifted(
        self,
        query: Float[Tensor, "B T D"],
        memory: Memory,
        shift: Float[Tensor, "*B H 1 S"],
    ) -> Float[Tensor, "B H T S"]:
        energy: Tensor = self.score(query, memory.selection_keys)
        wide = torch.promote_types(energy.dtype, torch.float32)
        return energy.to(wide) + shift

    def initial_state(self, memory: Memory) -> Float[Tensor, "B H S"]:
        """`alpha_0`: every head stands at the first position."""
        B, S = memory.mask.shape
        wide = torch.promote_types(memory.values.dtype, torch.float32)
        row = torch.zeros(B, self.heads, S, dtype=wide, device=memory.mask.device)
        row[..., 0] = 1.0
        return row

    def stopping(self, query: Float[Tensor, "B T D"], memory: Memory) -> Float[Tensor, "B H T S"]:
        """`e_ij + r`, with noise in training: the logit of `p_ij`.

        p is 0 at padding, and 1 at EOS where mass is preserved.
        """
        certain = torch.zeros_like(memory.mask, dtype=self.energy_bias.dtype)
        certain.masked_fill_(~memory.mask, -math.inf)
        if self.mass_preservation:
            certain.masked_fill_(memory.last, math.inf)
        energy = self._shifted(query, memory, self.energy_bias + certain[:, None, None])
        if self.training and self.noise > 0:
            energy = energy.add_(torch.randn_like(energy), alpha=self.noise)
        return energy

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
