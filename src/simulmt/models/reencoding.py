"""A bidirectional encoder that is run again on every prefix: wait-k as it was first trained.

STACL (Ma et al. 2019). A step that has read g tokens attends over the states of the first g tokens,
in which each of them has seen all others. Nothing can be kept when another token is read: a
sentence of S tokens is encoded S times, in training with S times the memory, which is the cost
that unidirectional encoders and the average embedding layer (Zhang et al. 2021) do away with.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from simulmt.attention import Attended, Attention, Mechanism, Memory, Stepped
from simulmt.errors import UserError

REENCODING = "reencoding"
"""What `model.encoder` calls it."""


def encode_prefixes(
    encode: Callable[[Tensor, Tensor], Tensor], x: Float[Tensor, "B S D"]
) -> Float[Tensor, "B S S*D"]:
    """The states of every prefix, side by side: those of the first i tokens in row i.

    Args:
        encode: runs the encoder on embeddings (N, S, D), of which (N, 1, 1, S) are visible.
        x: embedded source.
    """
    B, S, D = x.shape
    places = torch.arange(S, device=x.device)
    visible = (places <= places[:, None]).expand(B, S, S).reshape(B * S, 1, 1, S)
    again = x[:, None].expand(B, S, S, D).reshape(B * S, S, D)
    return encode(again, visible).reshape(B, S, S * D)


class Prefixes(NamedTuple):
    """The source as it was seen after each read: P prefixes, the last of them with all S tokens."""

    keys: Float[Tensor, "B P H S d"]
    values: Float[Tensor, "B P H S v"]
    mask: Bool[Tensor, "B S"]
    finished: Bool[Tensor, "B"]

    @property
    def whole(self) -> Memory:
        """What a fixed schedule asks of the source: how much there is of it."""
        none = self.keys.new_empty(len(self.mask), 0, self.mask.shape[1], 0)
        return Memory(none, none, none, self.mask, self.finished)


class PrefixAttention(nn.Module):
    """An attention over the states of what has been read, encoded together.

    Args:
        attention: the one over the states of a prefix.
        mechanism: what built it.

    Raises:
        UserError: where the last token read is not known beforehand, or not where the head stands.
    """

    def __init__(self, attention: Attention, mechanism: Mechanism) -> None:
        super().__init__()
        if mechanism.learned or mechanism.offline or attention.span.ahead:
            raise UserError(
                "model.encoder=reencoding runs a bidirectional encoder again on every prefix, "
                f"which is defined for mechanism=wait_k; mechanism={mechanism.name} takes "
                f"model.encoder={'bidirectional' if mechanism.offline else 'causal'}"
            )
        self.attention = attention

    def memory(
        self,
        states: Float[Tensor, "B P S*D"],
        mask: Bool[Tensor, "B S"],
        finished: Bool[Tensor, "B"],
    ) -> Prefixes:
        """Project the states of all prefixes, once each."""
        B, P, _ = states.shape
        S = mask.shape[1]
        rows = states.reshape(B * P, S, -1)
        own = self.attention.memory(rows, mask.repeat_interleave(P, 0), finished)
        keys, values = (x.view(B, P, *x.shape[1:]) for x in (own.soft_keys, own.values))
        return Prefixes(keys, values, mask, finished)

    def extend(
        self, memory: Prefixes, states: Float[Tensor, "B 1 S*D"], finished: Bool[Tensor, "B"]
    ) -> Prefixes:
        """The newest prefix in the place of the others: what is written next has read all of it."""
        mask = torch.cat([memory.mask, torch.ones_like(memory.mask[:, :1])], 1)
        return self.memory(states, mask, finished)

    def initial_state(self, memory: Prefixes) -> Tensor:
        """That of the schedule."""
        return self.attention.initial_state(memory.whole)

    def initial_position(self, memory: Prefixes) -> Int[Tensor, "B H"]:
        """That of the schedule."""
        return self.attention.initial_position(memory.whole)

    def forward(
        self, query: Float[Tensor, "B T D"], memory: Prefixes, state: Int[Tensor, "B H"]
    ) -> Attended:
        """Contexts of T target steps, each from the prefix that it has read."""
        B, T, D = query.shape
        steps = torch.arange(T, device=state.device)
        counts = (state[:, None] + steps[:, None]).flatten(0, 1)  # (B T, H)
        stops = self.attention.schedule.known_stops(T, memory.whole, state)
        assert stops is not None, "the constructor sees to that"
        own = self._read(memory, stops[:, 0])
        attended: Attended = self.attention(query.reshape(B * T, 1, D), own, counts)
        return Attended(attended.context.view(B, T, D), None, None, state + T)

    def step(
        self, query: Float[Tensor, "B 1 D"], memory: Prefixes, state: Int[Tensor, "B H"]
    ) -> Stepped:
        """One target step from the prefix that has been read."""
        stand = self.attention.schedule.step(query, memory.whole, state)
        stepped = self.attention.step(query, self._read(memory, stand.position[:, :1]), state)
        return stepped._replace(wants_to_read=stand.wants_to_read)

    def _read(self, memory: Prefixes, stops: Int[Tensor, "B T"]) -> Memory:
        """For each step, as a row of its own, the sentence as far as it has been read."""
        P, S = memory.keys.shape[1], memory.mask.shape[1]
        rows = torch.arange(len(stops), device=stops.device)[:, None]
        prefix = (stops - 1 - (S - P)).clamp(min=0)  # the first prefix has S - P + 1 tokens
        keys, values = (x[rows, prefix].flatten(0, 1) for x in (memory.keys, memory.values))
        mask = memory.mask[:, None] & (torch.arange(S, device=stops.device) < stops[..., None])
        ended = torch.ones_like(stops, dtype=torch.bool).flatten()
        return Memory(keys[..., :0], keys, values, mask.flatten(0, 1), ended)
