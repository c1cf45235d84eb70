"""Whole words: where source words end, and one read length for all of a target word.

Kim & Cho (2023), "Enhanced Simultaneous Machine Translation with Word-level Policies". A source
word arrives as a whole, so a clock counts words, and a head stops at ends of words only. The
subwords of a target word share one read length: inside a word the heads stay where they stand.

A subword shows that a word has ended only if it begins the next one. Training must not look at the
subword to be predicted. So in training a clock moves on at the first step and at those whose input
begins a word, since the next subword may begin another one; learned heads may move at every step.
"""

from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from simulmt.attention.clock import Clock, Side
from simulmt.attention.memory import first
from simulmt.attention.moment import Moment
from simulmt.attention.plan import MayMove, Plan, Stand, Stops
from simulmt.attention.shapes import Starts, TokenIds
from simulmt.attention.source import Source
from simulmt.attention.state import State, either


def ends_of_words(
    tokens: Int[Tensor, "B S"],
    mask: Bool[Tensor, "B S"],
    begins: Bool[Tensor, "V"],
    opening: tuple[int, ...] = (),
) -> Bool[Tensor, "B S"]:
    """True at the last token of each source word; EOS is a separate word.

    Args:
        tokens: the source.
        mask: True for real tokens.
        begins: True for each subword that begins a word.
        opening: the tokens that open a sentence; they belong to its first word.
    """
    following = begins[tokens[:, 1:]] | ~mask[:, 1:]
    ends = torch.cat([following, torch.ones_like(mask[:, :1])], 1) & mask
    for token in opening:
        ends = ends & (tokens != token)
    return ends


class Standing(NamedTuple):
    """The state of a clock or a schedule between two target steps, and where its heads stand."""

    state: State
    position: Int[Tensor, "B #H"]
    weight: Float[Tensor, "B #H S"] | None = None
    """What a clock that weighs attention gave the word; 1 before the first word."""
    word: Int[Tensor, "B"] | None = None
    """For a clock, the first subword of the newest word in its input."""


def standing(stand: Stand, before: Standing | None, moves: Bool[Tensor, "B"]) -> Stand:
    """A decision where the heads may move; elsewhere they stay.

    Args:
        stand: the decision.
        before: the state before it; None before the first step, at which all heads move.
        moves: True where heads may move at this step.
    """
    after = stand._replace(state=Standing(stand.state, stand.position))
    if before is None:
        return after
    stays = after._replace(
        position=before.position,
        state=before,
        wants_to_read=torch.zeros_like(stand.wants_to_read),
    )
    return either(moves, after, stays)


class OncePerWord(nn.Module, Clock[Standing]):
    """A clock that decides once for each target word.

    Args:
        clock: takes a step for each word; the tokens that it sees begin words.
        begins: True for each subword that begins a word.
    """

    def __init__(self, clock: Clock, begins: Bool[Tensor, "V"]) -> None:
        super().__init__()
        self.clock, self.begins = clock, begins

    def plan(self, source: Source, target: Int[Tensor, "B T"], moment: Moment) -> Plan:
        """The clock's plan for the first subwords, spread over the others."""
        moves = self.begins.to(target.device)[target]
        word = moves.cumsum(-1) - 1  # (B, T)
        elsewhere = target.shape[1]
        place = word.masked_fill(~moves, elsewhere)
        words = target.new_zeros(len(target), elsewhere + 1).scatter(1, place, target)[:, :-1]
        if moment.lengths is not None:
            words_of = moves & first(moves, moment.lengths)
            moment = moment._replace(lengths=words_of.sum(-1))
        plan = self.clock.plan(source, words, moment)
        assert plan is not None, "the clock of a recipe plans"
        assert isinstance(plan.alignment, Stops), "clocks plan known stops"
        position = plan.alignment.position.gather(2, word[:, None])
        weight = plan.weight
        if weight is not None:
            index = word[:, None, :, None].expand(-1, weight.shape[1], -1, weight.shape[-1])
            weight = weight.gather(2, index)
        return plan._replace(alignment=Stops(position), weight=weight)

    def emphasis(self, tokens: TokenIds, start: Starts, side: Side) -> Float[Tensor, "B N"] | None:
        """That of the clock."""
        return self.clock.emphasis(tokens, start, side)

    def start(self, source: Source) -> Standing:
        """No target step taken yet."""
        nowhere, weight = torch.zeros_like(source.tokens[:, :1]), source.states.new_ones(())
        weight = weight.expand(source.mask.shape)[:, None]
        return Standing(self.clock.start(source), nowhere, weight, nowhere[:, 0])

    def extend(self, state: Standing, source: Source) -> Standing:
        """The clock after more of the source has been read, and heads where they stand."""
        assert state.weight is not None, "from `start`"
        unseen = source.tokens.shape[1]  # from where the heads stand, so that any weight will do
        weight = nn.functional.pad(state.weight, (0, unseen), value=1)
        return state._replace(state=self.clock.extend(state.state, source), weight=weight)

    def seen(
        self, state: Standing, read: Int[Tensor, "B"], finished: Bool[Tensor, "B"]
    ) -> Standing:
        """The clock as if only `read` source tokens had been read, and heads where they stand."""
        return state._replace(state=self.clock.seen(state.state, read, finished))

    def step(self, state: Standing, token: Int[Tensor, "B"], moves: MayMove = None) -> Stand:
        """The clock's decision where a word begins; elsewhere the heads stay."""
        assert state.word is not None, "from `start`"
        begins = self.begins.to(token.device)[token]
        word, moves = token.where(begins, state.word), begins if moves is None else moves
        decided = self.clock.step(state.state, word)
        assert isinstance(decided, Stand), "the clock of a recipe decides"
        stand, weight = standing(decided, state, moves), state.weight
        if decided.weight is not None:
            weight = either(moves, decided.weight, weight)
            stand = stand._replace(weight=weight)
        assert isinstance(stand.state, Standing), "from `standing`"
        return stand._replace(state=stand.state._replace(weight=weight, word=word))
