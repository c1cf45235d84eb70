"""One attention for every mechanism: a schedule, a span and a score put together.

    logit       = schedule.stopping(query, memory)    whether a head that is there stops
    energy      = score(query, keys)                  how well what is there matches
    alpha, beta = span.aligned(logit, energy)         where it stands, what it looks at
    context     = sum_j beta_ij h_j

The same object serves training (`forward`) and inference (`step`), the Transformer (all rows at
once) and recurrent models (a row at a time): state goes in and comes out, nothing is kept here.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn.functional import one_hot

from simulmt.attention.memory import Memory
from simulmt.attention.schedules import Schedule
from simulmt.attention.scores import Score, join_heads, split_heads
from simulmt.attention.spans import Look, Span, weights


class Attended(NamedTuple):
    """What training gets back for T target steps."""

    context: Float[Tensor, "B T D"]
    beta: Float[Tensor, "B H T S"] | None
    """Expected attention; None where a fused kernel never wrote it down."""
    alpha: Float[Tensor, "B H T S"] | None
    """Probability that j tokens are read for step i: the expected alignment, moved by what the span
    looks ahead. None where the schedule is fixed, since nothing can change it."""
    state: Tensor


class Stepped(NamedTuple):
    """What inference gets back for one target step."""

    context: Float[Tensor, "B 1 D"]
    weights: Float[Tensor, "B H S"]
    position: Int[Tensor, "B H"]
    """Where each head stopped, from 1; 0 once it has run off the end."""
    read: Int[Tensor, "B"]
    """Source tokens that the slowest head has read, or needs to see."""
    state: Int[Tensor, "B H"]
    wants_to_read: Bool[Tensor, "B"]
    """Where True, the rest of the row is void: read another token and take the step again."""


class Attention(nn.Module):
    """Attention to the source with a pluggable schedule, span and score.

    Args:
        schedule: when to stop reading.
        span: what to look back on.
        score: how to weigh it.
        heads: number of heads H.
        project: width D of the projections of values and contexts; None leaves the context of
            one head what it is in recurrent models, a sum of source states.
    """

    def __init__(
        self, schedule: Schedule, span: Span, score: Score, heads: int, project: int | None
    ) -> None:
        super().__init__()
        self.heads = heads
        self.schedule = schedule
        self.span = span
        self.score = score
        self.value: nn.Module = nn.Identity()
        self.output: nn.Module = nn.Identity()
        if project is not None:
            self.value, self.output = nn.Linear(project, project), nn.Linear(project, project)
            for projection in (self.value, self.output):
                nn.init.xavier_uniform_(projection.weight)
                nn.init.zeros_(projection.bias)

    def memory(
        self,
        states: Float[Tensor, "B S D"],
        mask: Bool[Tensor, "B S"],
        finished: Bool[Tensor, "B"],
    ) -> Memory:
        """Project the source states once, head by head; every later call takes the result."""
        return Memory(
            selection_keys=self.schedule.keys(states).contiguous(),
            soft_keys=self.score.keys(states).contiguous(),
            values=split_heads(self.value(states), self.heads).contiguous(),
            mask=mask,
            finished=finished,
        )

    def extend(
        self, memory: Memory, states: Float[Tensor, "B N D"], finished: Bool[Tensor, "B"]
    ) -> Memory:
        """The memory with more source states; what it holds already is not computed again."""
        more = self.memory(states, torch.ones_like(states[..., 0], dtype=torch.bool), finished)
        return Memory(
            selection_keys=torch.cat([memory.selection_keys, more.selection_keys], 2),
            soft_keys=torch.cat([memory.soft_keys, more.soft_keys], 2),
            values=torch.cat([memory.values, more.values], 2),
            mask=torch.cat([memory.mask, more.mask], 1),
            finished=finished,
        )

    def initial_state(self, memory: Memory) -> Tensor:
        """Where the heads stand before the first step, in expectation."""
        return self.schedule.initial_state(memory)

    def initial_position(self, memory: Memory) -> Int[Tensor, "B H"]:
        """Where the heads stand before the first step."""
        return self.schedule.initial_position(memory)

    def forward(self, query: Float[Tensor, "B T D"], memory: Memory, state: Tensor) -> Attended:
        """Contexts of T target steps in expectation; T may be 1."""
        T = query.shape[1]
        stops = self.schedule.known_stops(T, memory, state)
        if stops is not None:  # alpha is one-hot: beta collapses to a masked softmax
            look = self.span.look(query, stops, memory.mask.shape[1])
            return Attended(self._attend(query, memory, look), None, None, state + T)
        alpha, beta, state = self.align(query, memory, state)
        read = self._read(alpha, memory) if self.span.ahead else alpha
        return Attended(self._context(beta, memory), beta, read, state)

    def align(
        self, query: Float[Tensor, "B T D"], memory: Memory, state: Tensor
    ) -> tuple[Float[Tensor, "B H T S"], Float[Tensor, "B H T S"], Tensor]:
        """`alpha`, `beta` and the next state, by the same two operations for every mechanism."""
        energy = self.score(query, memory.soft_keys)
        stops = self.schedule.known_stops(query.shape[1], memory, state)
        if stops is None:
            logit = self.schedule.stopping(query, memory)
            alpha, beta = self.span.aligned(query, logit, state, energy, memory.mask)
            return alpha, beta, alpha[..., -1, :]
        wide = torch.promote_types(energy.dtype, torch.float32)
        alpha = one_hot(stops - 1, memory.mask.shape[1]).to(wide)
        beta = self.span.expected(query, alpha, energy, memory.mask)
        return alpha, beta, state + query.shape[1]

    def step(
        self, query: Float[Tensor, "B 1 D"], memory: Memory, state: Int[Tensor, "B H"]
    ) -> Stepped:
        """One hard target step from what has been read; the decoding loop disposes."""
        stand = self.schedule.step(query, memory, state)
        look = self.span.look(query, stand.position[..., None], memory.mask.shape[1])
        beta = weights(self.score(query, memory.soft_keys), look, memory.mask)
        length = memory.length[:, None]
        needed = stand.position.where(stand.position > 0, length) + self.span.ahead  # (B, H)
        return Stepped(
            context=self._context(beta, memory),
            weights=beta[:, :, 0],
            position=stand.position,
            read=needed.minimum(length).amax(1),
            state=stand.state,
            wants_to_read=stand.wants_to_read | (needed > length).any(1) & ~memory.finished,
        )

    def _read(self, alpha: Float[Tensor, "B H T S"], memory: Memory) -> Float[Tensor, "B H T S"]:
        """Where the last token that a head sees lies, for heads that look ahead."""
        stood = torch.arange(alpha.shape[-1], device=alpha.device)
        last = (stood + self.span.ahead).minimum(memory.length[:, None] - 1).clamp(min=0)  # (B, S)
        return torch.zeros_like(alpha).scatter_add(-1, last[:, None, None].expand_as(alpha), alpha)

    def _attend(
        self, query: Float[Tensor, "B T D"], memory: Memory, look: Look
    ) -> Float[Tensor, "B T D"]:
        if look.factor is not None:
            beta = weights(self.score(query, memory.soft_keys), look, memory.mask)
            return self._context(beta, memory)
        visible = look.visible & memory.mask[:, None, None]
        context = self.score.attend(query, memory.soft_keys, memory.values, visible)
        return self.output(join_heads(context))  # type: ignore[no-any-return]

    def _context(self, beta: Float[Tensor, "B H T S"], memory: Memory) -> Float[Tensor, "B T D"]:
        context = beta.to(memory.values.dtype) @ memory.values  # (B, H, T, d)
        return self.output(join_heads(context))  # type: ignore[no-any-return]
