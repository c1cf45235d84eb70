"""One attention for every mechanism: a schedule, a span and a score put together.

    plan        = clock's, or schedule.plan(query, memory)  where heads stand, or the odds to stop
    energy      = score(query, keys)                        how well each source state matches
    alpha, beta = expected alignment, expected attention    where a head stands, where it looks
    context     = sum_j beta_ij h_j

The same object serves training (`forward`) and inference (`step`), the Transformer (all target
steps at once) and recurrent models (one step at a time). The caller keeps the state between calls.
"""

from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from simulmt.attention.initial import xavier
from simulmt.attention.memory import Memory
from simulmt.attention.moment import Moment
from simulmt.attention.plan import (
    NO_LOSSES,
    Losses,
    MayMove,
    Odds,
    Plan,
    Stand,
    Stops,
    logarithm,
    reweighted,
    together,
)
from simulmt.attention.schedule import Schedule
from simulmt.attention.scores.score import ScoreFunction, join_heads, no_keys, split_heads
from simulmt.attention.shapes import Queries, Weights
from simulmt.attention.source import Source
from simulmt.attention.spans import Look, Span, weights
from simulmt.attention.state import State
from simulmt.attention.words import Standing, standing
from simulmt.ops import expected_alignment_and_attention


class Attended(NamedTuple):
    """The result of `forward` for T target steps. Either `alpha` or `stops` is None."""

    context: Float[Tensor, "B T D"]
    alpha: Weights | None
    """Probability that j source tokens are read for step i: the expected alignment, moved on by the
    positions that the span looks ahead."""
    stops: Int[Tensor, "B #H T"] | None
    """Known positions of the heads, which no gradient can move."""
    state: State
    """State for the next call, where a schedule decides."""
    losses: Losses = NO_LOSSES


class Stepped(NamedTuple):
    """The result of `step` for one target step."""

    context: Float[Tensor, "B 1 D"]
    weights: Float[Tensor, "B H S"]
    position: Int[Tensor, "B H"]
    """Where each head stopped, from 1; 0 once it has run off the end."""
    read: Int[Tensor, "B"]
    """Source tokens that the slowest head needs to have read."""
    state: State
    """State for the next step, where a schedule decides."""
    wants_to_read: Bool[Tensor, "B"]
    """Where True, the other fields are void: read another source token and take the step again."""
    readiness: Float[Tensor, "B"] | None = None
    """The schedule's `readiness`, where it does not decide."""


class Looked(NamedTuple):
    """The result of `look` for T target steps."""

    context: Float[Tensor, "B T D"]
    weights: Weights


class Attention(nn.Module):
    """Attention to the source with a pluggable schedule, span and score.

    Args:
        schedule: decides when to read; None where a clock has decided before the decoder.
        span: where to look from where a head stands.
        score: weighs the positions that a head sees.
        heads: number of heads H.
        project: width D of the projections of values and contexts. None for no projections: the
            context is then a weighted sum of source states, as in recurrent models.
    """

    def __init__(
        self,
        schedule: Schedule | None,
        span: Span,
        score: ScoreFunction,
        heads: int,
        project: int | None,
    ) -> None:
        super().__init__()
        self.heads = heads
        self.schedule = schedule
        self.span = span
        self.traits = span.traits
        self.score = score
        self.value: nn.Module = nn.Identity()
        self.output: nn.Module = nn.Identity()
        if project is not None:
            self.value, self.output = xavier(
                nn.Linear(project, project), nn.Linear(project, project)
            )

    def memory(self, source: Source) -> Memory:
        """Keys and values of the source states, computed once for all later calls."""
        states, schedule = source.states, self.schedule
        selection = no_keys(states, self.heads) if schedule is None else schedule.keys(states)
        return Memory(
            selection_keys=selection.contiguous(),
            soft_keys=self.score.keys(states).contiguous(),
            values=split_heads(self.value(states), self.heads).contiguous(),
            mask=source.mask,
            finished=source.finished,
            ends=source.ends,
        )

    def extend(self, memory: Memory, source: Source) -> Memory:
        """The memory with more source states; only the new states are projected."""
        more = self.memory(source)
        pairs = zip(memory[:3], more[:3], strict=True)
        selection, soft, values = (torch.cat(pair, 2) for pair in pairs)
        mask = torch.cat([memory.mask, more.mask], 1)
        ends = None if more.ends is None else torch.cat([memory.stops, more.ends], 1)
        return Memory(selection, soft, values, mask, source.finished, ends)

    def forward(
        self, query: Queries, memory: Memory, state: State, plan: Plan | None, moment: Moment
    ) -> Attended:
        """Contexts of T >= 1 target steps of training.

        Args:
            query: decoder states.
            memory: the whole source.
            state: the state that the call for the previous steps returned; None before the first.
            plan: the clock's plan for these steps; None where a schedule decides.
            moment: how far the training is.
        """
        if plan is None:
            assert self.schedule is not None, "where no clock decides, a schedule does"
            state = self.schedule.initial_state(memory) if state is None else state
            plan = self.schedule.plan(query, memory, state, moment)
        if isinstance(plan.alignment, Stops):  # alpha is one-hot: beta is a masked softmax
            stops = plan.alignment.position
            look = self.span.look(query, stops, memory.mask.shape[1])
            context = self._attend(query, memory, look, plan.weight)
            return Attended(context, None, stops, plan.state, plan.losses)
        alpha, beta = self.expect(query, memory, plan)
        state = alpha[..., -1, :]
        read = self._read(alpha, memory) if self.traits.ahead else alpha
        return Attended(self._context(beta, memory), read, None, state, plan.losses)

    def expect(self, query: Queries, memory: Memory, plan: Plan) -> tuple[Weights, Weights]:
        """Expected alignment `alpha` and expected attention `beta` of a plan in odds."""
        energy, alignment = self.score(query, memory.soft_keys), plan.alignment
        assert not isinstance(alignment, Stops), "known stops need no expectation"
        if isinstance(alignment, Odds) and self.traits.unlimited:
            alpha, beta = expected_alignment_and_attention(
                alignment.logit, energy, alignment.initial
            )
        else:
            alpha = alignment.expected()
            closed, expected = self.span.closed_form(alpha, energy), self.span.expected
            beta = expected(query, alpha, energy, memory.mask) if closed is None else closed
        return alpha, reweighted(beta, plan.weight)

    def step(self, query: Queries, memory: Memory, state: State, stand: Stand | MayMove) -> Stepped:
        """One target step with hard decisions; the caller then reads or writes.

        Args:
            query: decoder states.
            memory: the part of the source that has been read.
            state: the state that the previous step returned; None before the first.
            stand: the clock's decision for this step. Where a schedule decides, the sentences
                whose heads may move; None for all.
        """
        carried, readiness = None, None
        if not isinstance(stand, Stand):
            stand = self._decide(query, memory, state, stand)
            carried = stand.state
        elif self.schedule is not None:
            readiness = self.schedule.readiness(query, memory)
        looked = self.look(query, memory, together([stand]))
        length = memory.length[:, None]
        position = stand.position.expand(-1, self.heads)
        needed = position.where(position > 0, length) + self.traits.ahead  # (B, H)
        return Stepped(
            context=looked.context,
            weights=looked.weights[:, :, 0],
            position=position,
            read=memory.whole(needed.minimum(length)).amax(1),
            state=carried,
            wants_to_read=stand.wants_to_read | (needed > length).any(1) & ~memory.finished,
            readiness=readiness,
        )

    def look(self, query: Queries, memory: Memory, plan: Plan) -> Looked:
        """Contexts and attention of T target steps of inference, with known stops.

        Args:
            query: decoder states.
            memory: the part of the source that has been read.
            plan: where the heads stand.
        """
        assert isinstance(plan.alignment, Stops), "a step of inference has hard positions"
        look = self.span.look(query, plan.alignment.position, memory.mask.shape[1])
        beta = weights(self.score(query, memory.soft_keys), look, memory.mask)
        beta = reweighted(beta, plan.weight)
        return Looked(self._context(beta, memory), beta)

    def _decide(self, query: Queries, memory: Memory, state: State, moves: MayMove) -> Stand:
        """The schedule's decision, and the state to carry to the next step."""
        assert self.schedule is not None, "where no clock decides, a schedule does"
        before = state if isinstance(state, Standing) else None
        own = state if before is None else before.state
        own = self.schedule.initial_position(memory) if own is None else own
        stand = self.schedule.step(query, memory, own)
        return stand if moves is None else standing(stand, before, moves)

    def _read(self, alpha: Weights, memory: Memory) -> Weights:
        """Alpha moved on by the positions that a head looks ahead, at most to the last token."""
        stopped = torch.arange(alpha.shape[-1], device=alpha.device)
        last = stopped + self.traits.ahead
        last = last.minimum(memory.length[:, None] - 1).clamp(min=0)  # (B, S)
        last = memory.whole(last + 1) - 1
        return torch.zeros_like(alpha).scatter_add(-1, last[:, None, None].expand_as(alpha), alpha)

    def _attend(
        self, query: Queries, memory: Memory, look: Look, weight: Tensor | None
    ) -> Float[Tensor, "B T D"]:
        if look.factor is not None:
            beta = weights(self.score(query, memory.soft_keys), look, memory.mask)
            return self._context(reweighted(beta, weight), memory)
        visible = look.visible & memory.mask[:, None, None]
        shift = None if weight is None else logarithm(weight)
        context = self.score.attend(query, memory.soft_keys, memory.values, visible, shift)
        return self.output(join_heads(context))  # type: ignore[no-any-return]

    def _context(self, beta: Weights, memory: Memory) -> Float[Tensor, "B T D"]:
        context = beta.to(memory.values.dtype) @ memory.values  # (B, H, T, d)
        return self.output(join_heads(context))  # type: ignore[no-any-return]
