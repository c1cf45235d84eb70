"""Clocks: policies that decide *before* the decoder when to read, once for all layers and heads.

A clock sees the source and the target written so far, and no state of the decoder (wait-k; Ma et
al. 2019). A frozen recipe such as `WaitK(k=3)` holds a clock's options; `build` makes the clock of
a model from the recipe. A clock without parameters is its own recipe.
"""

from abc import ABC, abstractmethod
from typing import (
    Any,
    ClassVar,
    Generic,
    Literal,
    NamedTuple,
    Protocol,
    TypeAlias,
    runtime_checkable,
)

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from typing_extensions import TypeVar

from simulmt.attention.memory import first, places
from simulmt.attention.moment import Moment
from simulmt.attention.plan import MayMove, Plan, Stand, Stops
from simulmt.attention.shapes import Starts, TokenIds
from simulmt.attention.source import Source
from simulmt.attention.state import State
from simulmt.errors import UserError

_CHECKED = 64
ClockState = TypeVar("ClockState", bound=State, default=Any)
"""The state of a clock between two target steps."""
Side: TypeAlias = Literal["source", "target"]


@runtime_checkable
class Embed(Protocol):
    """The embeddings of a model."""

    def __call__(self, tokens: TokenIds, start: Starts, side: Side) -> Float[Tensor, "B N D"]:
        """Embedded tokens from position `start`, from 0, on, without dropout.

        They have a scale of 1; positions are added where the model has them.
        """


class Clock(ABC, Generic[ClockState]):
    """Decides how much of the source is read before each target token."""

    @abstractmethod
    def plan(self, source: Source, target: Int[Tensor, "B T"], moment: Moment) -> Plan | None:
        """Known stops for T target steps of training; None where a schedule decides.

        Args:
            source: whole sentences.
            target: the decoder's input, BOS first; step i may look at `target[:, :i]` alone.
            moment: how far the training is.
        """

    @abstractmethod
    def start(self, source: Source) -> ClockState:
        """The state before the first target step, from the source tokens read so far."""

    @abstractmethod
    def extend(self, state: ClockState, source: Source) -> ClockState:
        """The state after more of the source has been read.

        Tensors with a source dimension grow at its end. If sentences of different lengths read in
        one batch, padding may precede the new elements; the caller moves it after them.
        """

    @abstractmethod
    def seen(
        self, state: ClockState, read: Int[Tensor, "B"], finished: Bool[Tensor, "B"]
    ) -> ClockState:
        """The state as if only `read` source tokens had been read, and EOS only if `finished`."""

    @abstractmethod
    def step(
        self, state: ClockState, token: Int[Tensor, "B"], moves: MayMove = None
    ) -> Stand | MayMove:
        """The decision for one target step of inference.

        Args:
            state: the state before the step.
            token: the last token written.
            moves: True where a target word begins, for mechanisms that write whole words; other
                clocks do not use it. None: where `token` begins a word.

        Returns:
            Where all heads stand. Where a schedule decides, the sentences whose heads may read on;
            None for all.
        """

    def emphasis(self, tokens: TokenIds, start: Starts, side: Side) -> Float[Tensor, "B N"] | None:
        """What self-attention adds to a token's energy for itself; None for nothing.

        Args:
            tokens: of the source, or the decoder's input.
            start: the position of the first of them, from 0.
            side: whose tokens they are.
        """
        return None


class NeverDecides(Clock[None]):
    """The clock of a mechanism whose schedule decides in each layer.

    Args:
        writes_words: True if heads may read on only where a target word begins.
    """

    def __init__(self, writes_words: bool) -> None:
        self.writes_words = writes_words

    def plan(self, source: Source, target: Int[Tensor, "B T"], moment: Moment) -> None:
        """Nothing."""

    def start(self, source: Source) -> None:
        """Nothing."""

    def extend(self, state: None, source: Source) -> None:
        """Nothing."""

    def seen(self, state: None, read: Int[Tensor, "B"], finished: Bool[Tensor, "B"]) -> None:
        """Nothing."""

    def step(self, state: None, token: Int[Tensor, "B"], moves: MayMove = None) -> MayMove:
        """The sentences whose heads may read on."""
        return moves if self.writes_words else None


class ClockRecipe(ABC):
    """The options of a clock."""

    learned: ClassVar[bool] = False
    """True if expected delays have a gradient, so that a latency loss can act."""
    offline: ClassVar[bool] = False
    """True if the whole source is read before the first target token."""
    dials: ClassVar[tuple[str, ...]] = ()
    """The options that trade quality for latency in a trained model."""
    losses: ClassVar[tuple[str, ...]] = ()
    """The names of its own losses, each of which needs a weight in `objective.terms`."""

    confident: ClassVar[bool] = False
    """True if the model has a confidence in each token, and treats a prefix as a sentence."""
    weighs_tokens: ClassVar[bool] = False
    """True if it has an `emphasis`."""

    @abstractmethod
    def build(self, dim: int, embed: Embed) -> Clock:
        """The clock of a model of width `dim` with these embeddings."""


class Ticks(NamedTuple):
    """The state of a timetable between two target steps."""

    written: Int[Tensor, "B"]
    """Target steps taken so far."""
    read: Int[Tensor, "B"]
    """Source tokens read so far."""
    finished: Bool[Tensor, "B"]
    """True if EOS is among them."""
    stops: Bool[Tensor, "B S"]
    """The tokens at which a head may stop: all, or the last ones of words."""


class Timetable(ClockRecipe, Clock[Ticks], ABC):
    """A clock that depends on the number of the target step alone; its own recipe."""

    @abstractmethod
    def wanted(self, step: Int[Tensor, "*N"]) -> Int[Tensor, "*N"]:
        """Source tokens, or words, to read before target step `step`, from 1, of an endless source.

        At least 1, and never less than for the step before.
        """

    def build(self, dim: int, embed: Embed) -> Clock:
        """The timetable itself, since it has no parameters.

        Raises:
            UserError: `wanted` breaks what its docstring asks.
        """
        with torch.device("cpu"):  # the model may be an outline on the meta device
            wanted = self.wanted(torch.arange(1, _CHECKED + 1))
        broken = wanted < torch.cat([torch.ones_like(wanted[:1]), wanted[:-1]])
        if wanted.is_floating_point() or broken.any():
            first = max(int(broken.int().argmax()) - 1, 0)
            raise UserError(
                f"{type(self).__name__}.wanted returns {wanted[first : first + 3].tolist()} from "
                f"step {first + 1} on; it must return whole numbers from 1 that never decrease"
            )
        return self

    def plan(self, source: Source, target: Int[Tensor, "B T"], moment: Moment) -> Plan:
        """`min(wanted(i), S)` for each target step i."""
        wanted = self.wanted(places(target, target.shape[1])).expand(target.shape)
        return Plan(Stops(after(wanted, source.stops)[:, None]))

    def start(self, source: Source) -> Ticks:
        """No target step taken yet."""
        read = source.mask.sum(-1)
        return Ticks(torch.zeros_like(read), read, source.finished, source.stops)

    def extend(self, state: Ticks, source: Source) -> Ticks:
        """The number of source tokens read grows."""
        read = state.read + source.mask.sum(-1)
        stops = torch.cat([state.stops, source.stops], 1)
        return Ticks(state.written, read, source.finished, stops)

    def seen(self, state: Ticks, read: Int[Tensor, "B"], finished: Bool[Tensor, "B"]) -> Ticks:
        """The number of source tokens read is given."""
        return state._replace(read=read, finished=finished)

    def step(self, state: Ticks, token: Int[Tensor, "B"], moves: MayMove = None) -> Stand:
        """Stand at the wanted position, or at the end of what has been read."""
        wanted = self.wanted(state.written + 1)
        stops = state.stops & first(state.stops, state.read)
        return Stand(
            position=after(wanted[:, None], stops),
            state=state._replace(written=state.written + 1),
            wants_to_read=(wanted > stops.sum(-1)) & ~state.finished,
        )


class SeveralStates(ABC):
    """A timetable with K states for each target token, of which the model chooses one (HMT).

    A plan has K steps for each target token.
    """

    states: int
    """K."""
    threshold: float
    """The least probability of translating at which a state is chosen."""

    @abstractmethod
    def reads(self, ticks: Ticks, tokens: int) -> tuple[Int[Tensor, "B N"], Bool[Tensor, "B N"]]:
        """How many source tokens each of the N = tokens * K states reads, and if they are read.

        Args:
            ticks: what has been read.
            tokens: the number of target tokens.
        """


def after(count: Int[Tensor, "B T"], stops: Bool[Tensor, "B S"]) -> Int[Tensor, "B T"]:
    """The position of stop number `count`, from 1; of the last stop if there are fewer."""
    passed = stops.cumsum(-1)
    most = passed[:, -1:]
    return torch.searchsorted(passed, count.minimum(most)) + 1
