"""ITST: wait until enough information has been transported (Zhang & Feng 2022).

In each layer, source token j transports the information T_ij to target token i, the same for all
heads. Token i is written once the information of all tokens read, except the newest, adds up to
delta. Attention is multiplied by T and renormalised. Training teaches T to add up to 1 in each row
and to lie near the diagonal, while delta falls, so that one model serves every delta.

The paper leaves three things to the authors' code: the logits of T are divided by the root of the
width of one head, the keys have a bias, and the newest token does not count, since its information
"may be unstable".
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, ClassVar, NamedTuple

import torch
from annotated_types import Gt, Le
from jaxtyping import Float, Int
from torch import Tensor, nn

from simulmt.attention.memory import Memory, places
from simulmt.attention.moment import Moment
from simulmt.attention.plan import Plan, Stand, Stops
from simulmt.attention.schedule import Schedule, ScheduleRecipe
from simulmt.attention.scores.score import ScoreFunction, products
from simulmt.attention.shapes import Queries
from simulmt.ops.precision import wide, wider
from simulmt.options import Positive, Share, limited

LEAST = 1e-4
"""What is added to the sigmoid, so that no source token is shut out."""
_Delta = Annotated[float, Gt(0), Le(1)]


@limited
@dataclass(frozen=True)
class Itst(ScheduleRecipe):
    """The options of ITST.

    In training delta is `delta_min + (1 - delta_min) exp(-u / delta_decay)`, where u is the share
    of the updates that are done.

    Args:
        delta: information that each target token waits for, outside training.
        delta_min: where delta falls to in training; 0.5 in the paper.
        delta_decay: the time constant of the fall, as a share of the updates; 100,000 updates in
            the paper.
        full: share of the updates, at the start, in which a target token sees the whole source;
            4,000 updates in the paper.
    """

    learned: ClassVar[bool] = False
    dials: ClassVar[tuple[str, ...]] = ("delta",)
    losses: ClassVar[tuple[str, ...]] = ("information_lag", "information_norm")
    delta: _Delta
    delta_min: _Delta
    delta_decay: Positive
    full: Share

    def build(self, dim: int, heads: int, score: Callable[[int, int], ScoreFunction]) -> Schedule:
        """The information of one layer, whatever the model's usual score."""
        return Information(self, dim, heads)

    def threshold(self, moment: Moment) -> float:
        """Delta at a moment; infinity where the whole source is seen."""
        if moment.draw is None:  # no training
            return self.delta
        if moment.share < self.full:
            return math.inf
        return self.delta_min + (1 - self.delta_min) * math.exp(-moment.share / self.delta_decay)


class Transported(NamedTuple):
    """The state between two calls of `plan`."""

    position: Int[Tensor, "B 1"]
    """Source tokens read for the step before."""
    steps: Int[Tensor, "B"]
    """Target steps planned."""
    apart: Float[Tensor, "B"]
    """Squared distance of their information from rows that add up to 1."""


class Information(Schedule[Transported, Tensor]):
    """The information matrix of one layer, shared by its heads.

    Args:
        options: those of the recipe.
        dim: width D of queries and source states.
        heads: number of heads H of the layer's attention, which sets the scale of the logits.
    """

    def __init__(self, options: Itst, dim: int, heads: int) -> None:
        super().__init__()
        self.options = options
        self.query, self.key = nn.Linear(dim, dim), nn.Linear(dim, dim)
        self.scale = math.sqrt(dim / heads)

    def keys(self, states: Float[Tensor, "B S D"]) -> Float[Tensor, "B 1 S D"]:
        """`W_k h + b`: the bias sets the level of T."""
        return self.key(states)[:, None]  # type: ignore[no-any-return]

    def information(self, query: Queries, memory: Memory) -> Float[Tensor, "B 1 T S"]:
        """`T = sigmoid(q . k / sqrt(D / H)) + 1e-4`, 0 at padding, in float32 at least."""
        logit = wide(products(self.query(query) / self.scale, memory.selection_keys))
        T: Tensor = (logit.sigmoid() + LEAST) * memory.mask[:, None, None]
        return T

    def initial_state(self, memory: Memory) -> Transported:
        """No step planned yet."""
        none = torch.zeros_like(memory.length)
        return Transported(self.initial_position(memory), none, none.to(wider(memory.values.dtype)))

    def plan(self, query: Queries, memory: Memory, state: Transported, moment: Moment) -> Plan:
        """Where the information reaches delta, T as a weight, and the two losses."""
        T = self.information(query, memory)
        delta = self.options.threshold(moment)
        if math.isinf(delta):
            position = memory.length[:, None, None].expand(T.shape[:3])
        else:
            position = wanted(T.detach(), delta, state.position, memory)
            position = memory.whole(position.minimum(memory.length[:, None, None]))
        steps = state.steps[:, None] + places(T, T.shape[2])  # (B, T), from 1
        lengths = steps[:, -1] if moment.lengths is None else moment.lengths
        sources = memory.length if moment.sources is None else moment.sources
        real = T[:, 0] * (steps <= lengths[:, None])[..., None]  # (B, T, S)
        total = real.sum(-1, keepdim=True)
        total = total.masked_fill(total == 0, 1)
        apart = state.apart + (real - real / total).square().sum((1, 2))
        losses = {
            "information_lag": off_diagonal(real / total, steps, sources, lengths),
            "information_norm": root(apart) - root(state.apart),  # summed over calls: the norm
        }
        after = Transported(position[..., -1], steps[:, -1], apart)
        return Plan(Stops(position), T, losses, after)

    def initial_position(self, memory: Memory) -> Int[Tensor, "B 1"]:
        """Nothing read yet."""
        return torch.zeros_like(memory.length)[:, None]

    def step(self, query: Queries, memory: Memory, state: Int[Tensor, "B 1"]) -> Stand:
        """Read on until delta is reached, then stand there."""
        T, length = self.information(query, memory), memory.length[:, None]
        position = wanted(T, self.options.delta, state, memory)[..., 0]  # (B, 1)
        waits = (position > length)[:, 0] & ~memory.finished
        position = memory.whole(position.minimum(length))
        return Stand(position, position, waits, T[:, :, 0])


def wanted(
    T: Float[Tensor, "B 1 T S"], delta: float, before: Int[Tensor, "B 1"], memory: Memory
) -> Int[Tensor, "B 1 T"]:
    """`1 + m_i` with `m_i = 1 + #{j : sum_(l<=j) T_il < delta}`, never less than was read before.

    The m_i-th token brings the sum to delta, and one more token is read. More than S means that
    delta is not reached, or only by the newest token.

    Args:
        T: information.
        delta: what it has to add up to.
        before: source tokens read for the step before.
        memory: the part of the source that has been read.
    """
    short = (T.cumsum(-1) < delta) & memory.mask[:, None, None]
    return torch.maximum((2 + short.sum(-1)).cummax(-1).values, before[..., None])


def off_diagonal(
    share: Float[Tensor, "B T S"],
    steps: Int[Tensor, "B T"],
    source: Int[Tensor, "B"],
    target: Int[Tensor, "B"],
) -> Float[Tensor, "B"]:
    """`sum_ij T_ij max(|j - i S/T| - 1, 0) / (S T)`, the information far from the diagonal.

    Args:
        share: information, each row of which adds up to 1, or to 0 at padding.
        steps: i, from 1.
        source: S.
        target: T.
    """
    slope = source / target
    diagonal = steps * slope[:, None]  # (B, T)
    far = (places(share, share.shape[2]) - diagonal[..., None]).abs() - 1
    return (share * far.clamp(min=0)).sum((1, 2)) / (source * target)


def root(squares: Float[Tensor, "B"]) -> Float[Tensor, "B"]:
    """The square root, with a gradient of 0 at 0."""
    return torch.where(squares > 0, squares, 1).sqrt() * (squares > 0)
