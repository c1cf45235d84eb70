"""A bidirectional encoder that runs again on every prefix, as in STACL (Ma et al. 2019).

A step that has read g tokens attends over the states of the first g tokens, in which each token has
seen all others. No state survives the next read: for a sentence of S tokens, training computes
S (S + 1) / 2 states instead of S, and keeps S^2 keys and values. Unidirectional encoders and the
average embedding layer (Zhang et al. 2021) avoid that cost.
"""

from collections.abc import Callable

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from simulmt.attention import Mechanism, Memory, Moment, Source
from simulmt.attention.attention import Attended, Attention, Stepped
from simulmt.attention.clock import ClockRecipe
from simulmt.attention.memory import places
from simulmt.attention.plan import MayMove, Plan, Stand, Stops
from simulmt.attention.shapes import Queries
from simulmt.attention.state import State
from simulmt.errors import UserError

REENCODING = "reencoding"
"""The value of `model.encoder` that selects re-encoding."""


def encode_prefixes(
    encode: Callable[[Tensor, Tensor], Tensor], x: Float[Tensor, "B S D"]
) -> Float[Tensor, "B S S D"]:
    """The states of every prefix: row i, from 1, begins with those of the first i tokens.

    The encoder sees them in rows of S + 1 tokens: a prefix of n tokens, and one of S + 1 - n.

    Args:
        encode: the encoder: embeddings (N, M, D) and visible positions (N, 1, M, M) to states.
        x: embedded source.
    """
    B, S, D = x.shape
    place, length = places(x, S + 1) - 1, places(x, S)[:, None]
    longer = length[(S // 2) :].flip(0)  # from S tokens to half of them, one in each row
    second = place >= longer
    token = torch.where(second, place - longer, place)
    visible = (second[:, None] == second[..., None]).repeat(B, 1, 1)[:, None]
    states = encode(x[:, token].flatten(0, 1), visible)
    other = S + 1 - length
    row, start = torch.minimum(length, other) - 1, torch.where(length < other, other, 0)
    own = row * (S + 1) + (start + place[:S]).clamp(max=S)
    return states.view(B, -1, D)[:, own]


class PrefixAttention(nn.Module):
    """An attention over the states of the prefix that has been read, encoded as a whole.

    The keys and values of its memory have a dimension P after the batch, for the source as it was
    after each of the last P reads; the last prefix has all S tokens.

    Args:
        attention: the attention over the states of one prefix.
        mechanism: the mechanism that built the attention.

    Raises:
        UserError: a mechanism whose read lengths are not known before the decoder runs.
    """

    def __init__(self, attention: Attention, mechanism: Mechanism) -> None:
        super().__init__()
        clock = mechanism.schedule
        fixed = isinstance(clock, ClockRecipe) and not clock.weighs_tokens
        if not fixed or mechanism.offline or attention.traits.ahead:
            raise UserError(
                "model.encoder=reencoding runs a bidirectional encoder again on every prefix, "
                f"which is for mechanism=wait_k and multi_path; mechanism={mechanism.name} takes "
                f"model.encoder={'bidirectional' if mechanism.offline else 'causal'}"
            )
        self.attention = attention

    def memory(self, source: Source) -> Memory:
        """Keys and values of all prefixes, computed once for all later calls."""
        return self._projected(source, source.mask)

    def extend(self, memory: Memory, source: Source) -> Memory:
        """The newest prefix alone: the next token is written after all of it has been read."""
        return self._projected(source, torch.cat([memory.mask, source.mask], 1))

    def forward(
        self, query: Queries, memory: Memory, state: State, plan: Plan | None, moment: Moment
    ) -> Attended:
        """Contexts of T target steps of training, each from the prefix that has been read."""
        B, T, D = query.shape
        assert plan is not None, "the constructor rejects mechanisms without a clock"
        assert isinstance(plan.alignment, Stops), "clocks plan known stops"
        stops = plan.alignment.position  # (B, 1, T)
        rows = stops.reshape(B * T, 1, 1)
        weight = None if plan.weight is None else plan.weight.transpose(1, 2).flatten(0, 1)
        alone = Plan(Stops(rows), None if weight is None else weight[:, :, None])
        own = self._read(memory, stops[:, 0])
        attended: Attended = self.attention(query.reshape(B * T, 1, D), own, None, alone, moment)
        return Attended(attended.context.view(B, T, D), None, stops, None, plan.losses)

    def step(self, query: Queries, memory: Memory, state: State, stand: Stand | MayMove) -> Stepped:
        """One target step from the prefix that has been read."""
        assert isinstance(stand, Stand), "the constructor rejects mechanisms without a clock"
        own = self._read(memory, stand.position[:, :1])
        return self.attention.step(query, own, None, stand)

    def _projected(self, source: Source, mask: Bool[Tensor, "B S"]) -> Memory:
        assert source.prefixes is not None, "the encoder of a re-encoding model gives prefixes"
        B, P = source.prefixes.shape[:2]
        rows = source._replace(
            states=source.prefixes.flatten(0, 1), mask=mask.repeat_interleave(P, 0)
        )
        own = self.attention.memory(rows)
        parts = [x.view(B, P, *x.shape[1:]) for x in own[:3]]  # keys and values
        return Memory(parts[0], parts[1], parts[2], mask, source.finished)

    def _read(self, memory: Memory, stops: Int[Tensor, "B T"]) -> Memory:
        """The prefix that each step has read; every step becomes a row."""
        P, S = memory.values.shape[1], memory.mask.shape[1]
        rows = torch.arange(len(stops), device=stops.device)[:, None]
        prefix = (stops - 1 - (S - P)).clamp(min=0)  # the first prefix has S - P + 1 tokens
        parts = [x[rows, prefix].flatten(0, 1) for x in memory[:3]]
        mask = memory.mask[:, None] & (torch.arange(S, device=stops.device) < stops[..., None])
        ended = torch.ones_like(stops, dtype=torch.bool).flatten()
        return Memory(parts[0], parts[1], parts[2], mask.flatten(0, 1), ended)
