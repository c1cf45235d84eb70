"""Wait-info: a target token waits until what is read informs K more than what is written.

Zhang et al. (2022), "Wait-info Policy: Balancing Source and Target at Information Level for
Simultaneous Machine Translation". Each token has a learned information, 1 on average. With 1 for
every token this is wait-k. The information also weighs attention: to source tokens that inform
about as much as the target token, and of a token to itself.
"""

from dataclasses import dataclass
from typing import Annotated, ClassVar, NamedTuple

import torch
from annotated_types import Gt, Le
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from simulmt.attention.clock import Clock, ClockRecipe, Embed, Side
from simulmt.attention.clocks.wait_k import LONGEST
from simulmt.attention.memory import ends_from, first, places
from simulmt.attention.moment import Moment, uniform
from simulmt.attention.plan import MayMove, Plan, Stand, Stops
from simulmt.attention.shapes import Starts, TokenIds
from simulmt.attention.source import Source
from simulmt.ops.precision import wide
from simulmt.options import Share, limited

_Lead = Annotated[float, Gt(0), Le(LONGEST)]


@limited
@dataclass(frozen=True)
class WaitInfo(ClockRecipe):
    """The options of wait-info.

    In training K is uniform over 1, ..., S for each sentence and update.

    Args:
        k: K of validation and test: how much more is read than written.
        full: share of the updates, at the start, in which a target token sees the whole source;
            4,000 updates in the paper.
    """

    weighs_tokens: ClassVar[bool] = True
    dials: ClassVar[tuple[str, ...]] = ("k",)
    losses: ClassVar[tuple[str, ...]] = ("information_gap",)
    k: _Lead
    full: Share

    def build(self, dim: int, embed: Embed) -> Clock:
        """The clock of a model, with what it learns."""
        return InformationClock(self, dim, embed)


class Balance(NamedTuple):
    """The state between two target steps."""

    source: Float[Tensor, "B S"]
    """Information of the source tokens."""
    stops: Bool[Tensor, "B S"]
    """The tokens that count: all, or the last ones of words."""
    read: Int[Tensor, "B"]
    """Source tokens read so far."""
    finished: Bool[Tensor, "B"]
    """True if EOS is among them."""
    written: Int[Tensor, "B"]
    """Target steps taken so far."""
    sent: Float[Tensor, "B"]
    """Information of the target tokens written."""


class Quantifier(nn.Module):
    """`I = 2 sigmoid(w_2 . tanh(W_1 tanh(x)))` for an embedded token x: from 0 to 2, at first 1."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.hidden = nn.Linear(dim, dim, bias=False)
        self.out = nn.Linear(dim, 1, bias=False)

    def forward(self, embedded: Float[Tensor, "B N D"]) -> Float[Tensor, "B N"]:
        """The information of each token, in float32 at least."""
        logit = self.out(self.hidden(embedded.tanh()).tanh())[..., 0]
        information: Tensor = 2 * wide(logit).sigmoid()
        return information


class InformationClock(nn.Module, Clock[Balance]):
    """Compares the information that is read with the information that is written.

    Args:
        options: those of the recipe.
        dim: width D of embeddings.
        embed: the model's embeddings.
    """

    def __init__(self, options: WaitInfo, dim: int, embed: Embed) -> None:
        super().__init__()
        self.options, self.embed = options, embed
        self.source, self.target = Quantifier(dim), Quantifier(dim)

    def information(self, tokens: TokenIds, start: Starts, side: Side) -> Float[Tensor, "B N"]:
        """The information of tokens from position `start`, from 0, on.

        The token at position 0 has 1: BOS, if there is no history before it.
        """
        embedded = self.embed(tokens, start, side)
        if side == "source":
            return self.source(embedded)  # type: ignore[no-any-return]
        place = start + places(tokens, tokens.shape[1]) - 1
        return self.target(embedded).where(place > 0, 1.0)  # type: ignore[no-any-return]

    def emphasis(self, tokens: TokenIds, start: Starts, side: Side) -> Float[Tensor, "B N"]:
        """`I - 1`."""
        return self.information(tokens, start, side) - 1

    def plan(self, source: Source, target: Int[Tensor, "B T"], moment: Moment) -> Plan:
        """Stops, weights, and how far the sums of the information are from the tokens' mean."""
        begin = target.new_zeros(1, 1)
        read = self.information(source.tokens, begin, "source")
        sent = self.information(target, begin, "target")
        length = source.mask.sum(-1)[:, None]
        if moment.draw is not None and moment.share < self.options.full:
            position = length.expand(target.shape)
        else:
            needed = self._lead(source, moment)[:, None] + sent.detach().cumsum(-1) - 1
            position = reached(read.detach(), source.stops, needed).minimum(length)
        weight = balance(read[:, None, None], sent[:, None, :, None])
        lengths = torch.full_like(length, target.shape[1])
        lengths = lengths if moment.lengths is None else moment.lengths[:, None]
        real = places(target, target.shape[1]) <= lengths  # (B, T)
        # |sum I - N| + |sum I' - N|, where N is the mean of the two lengths
        own = _own(source, moment)
        mean = (own.sum(-1) + real.sum(-1)) / 2
        gap = ((read * own).sum(-1) - mean).abs() + ((sent * real).sum(-1) - mean).abs()
        return Plan(Stops(position[:, None]), weight, {"information_gap": gap})

    def _lead(self, source: Source, moment: Moment) -> Float[Tensor, "B"]:
        """K: drawn in training, else the option."""
        length = _own(source, moment).sum(-1)
        if moment.draw is None:
            return torch.full_like(length, self.options.k, dtype=torch.float64)
        return uniform(moment.draw, 1, length).double()

    def start(self, source: Source) -> Balance:
        """Nothing written yet."""
        information = self.information(source.tokens, source.tokens.new_zeros(1, 1), "source")
        read = source.mask.sum(-1)
        none = torch.zeros_like(read)
        return Balance(information, source.stops, read, source.finished, none, none.to(information))

    def extend(self, state: Balance, source: Source) -> Balance:
        """More information is read."""
        more = self.information(source.tokens, state.read[:, None], "source")
        return state._replace(
            source=torch.cat([state.source, more], 1),
            stops=torch.cat([state.stops, source.stops], 1),
            read=state.read + source.mask.sum(-1),
            finished=source.finished,
        )

    def seen(self, state: Balance, read: Int[Tensor, "B"], finished: Bool[Tensor, "B"]) -> Balance:
        """Only the first tokens count."""
        return state._replace(read=read, finished=finished)

    def step(self, state: Balance, token: Int[Tensor, "B"], moves: MayMove = None) -> Stand:
        """Stand where enough is read, or at the end of what has been read."""
        begin = state.written[:, None]
        own = self.information(token[:, None], begin, "target")[:, 0]
        sent = state.sent + own.where(state.written > 0, 0.0)
        stops = state.stops & first(state.stops, state.read)
        position = reached(state.source, stops, self.options.k + sent[:, None].double())[:, 0]
        return Stand(
            position=position.minimum(state.read)[:, None],
            state=state._replace(written=state.written + 1, sent=sent),
            wants_to_read=(position > state.read) & ~state.finished,
            weight=balance(state.source, own[:, None])[:, None],
        )


def _own(source: Source, moment: Moment) -> Bool[Tensor, "B S"]:
    """The ends of tokens or words that count: of the sentence alone, with what stands for EOS."""
    if moment.sources is None:
        return source.stops
    last = ends_from(source.stops).gather(1, moment.sources[:, None] - 1)[:, 0]
    return source.stops & first(source.stops, last)


def reached(
    information: Float[Tensor, "B S"], stops: Bool[Tensor, "B S"], needed: Float[Tensor, "B T"]
) -> Int[Tensor, "B T"]:
    """The first j with `sum_(l<=j) I_l >= needed`, from 1; S + 1 if there is none."""
    total = (information * stops).cumsum(-1).double()
    return torch.searchsorted(total, needed.double()) + 1


def balance(read: Tensor, sent: Tensor) -> Tensor:
    """`2 - |I_j - I'_i|`, the weight of a source token for a target token."""
    return 2 - (read - sent).abs()
