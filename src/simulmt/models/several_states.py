"""A decoder that takes each target token in several states, for HMT (Zhang & Feng 2023).

A state is the decoder's view of a target token after some part of the source. All states of a token
have its embedding and position; each attends to the source that it has read. A state sees those
states of earlier tokens, and earlier states of its own token, that have read no more than itself.
At each state the model computes the probability to translate there rather than to wait.

Training computes all states. Decoding takes the first state that translates, from the present read
length on. The states of a token that is written are computed once; a step that has to read on is
taken again.
"""

import math
from typing import NamedTuple, Protocol, runtime_checkable

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from simulmt.attention import Mechanism, Plan, Source
from simulmt.attention.clock import Clock, SeveralStates, Ticks
from simulmt.attention.plan import Stops, carried
from simulmt.attention.shapes import TokenIds
from simulmt.attention.state import State
from simulmt.errors import UserError
from simulmt.models.decoder import Decoded, Decoder
from simulmt.models.results import DecoderStep, Translation
from simulmt.ops.precision import wide

_NEVER = torch.iinfo(torch.long).max
"""The read length of a state that none may see, since it is not computed yet."""


class States(NamedTuple):
    """What is kept between two target steps beside keys and values; N states are in the cache."""

    tokens: Int[Tensor, "B t"]
    """The decoder's inputs so far."""
    place: Int[Tensor, "B N"]
    """The number of each state in the cache: K times its token's, plus its own among the K."""
    read: Int[Tensor, "B N"]
    """The source tokens that it has read."""
    done: Bool[Tensor, "B P"]
    """Which of all P = t * K states are computed, in their own order."""
    latest: Int[Tensor, "B"]
    """The source tokens read when the last token was written."""
    sums: Float[Tensor, "B S D"]
    """Sums of the source states up to each token."""


class StateBlock(NamedTuple):
    """The n states to compute at a target step; the last K are those of the next token."""

    tokens: Int[Tensor, "B n"]
    position: Int[Tensor, "B n"]
    """The place of each token in the target, from 0."""
    read: Int[Tensor, "B n"]
    """The source tokens that each state reads."""
    visible: Bool[Tensor, "B 1 n N"]
    ready: Bool[Tensor, "B K"]
    """True where the source tokens that a state of the next token reads have been read."""
    after: States
    """What is kept once the block is computed; `latest` is still that from before the step."""


class TransformerState(NamedTuple):
    """The state of the decoder between two target steps."""

    layers: Decoded
    step: Int[Tensor, "B"]
    """Number of target tokens that the decoder has read as input, BOS included."""
    clock: State
    several: States | None = None
    """The states of each target token, if it has several."""


@runtime_checkable
class Network(Protocol):
    """The Transformer whose decoder takes a step."""

    clock: Clock
    decoder: Decoder
    decoder_norm: nn.Module

    def embed(self, tokens: TokenIds, first: Int[Tensor, "B 1"]) -> Float[Tensor, "B N D"]:
        """Tokens at the positions `first`, `first + 1`, ..."""

    def logits(self, states: Float[Tensor, "B D"]) -> Float[Tensor, "B V"]:
        """The logits of the next tokens."""


class StateChooser(nn.Module):
    """Which states there are, what they see, and which of them translates.

    Args:
        mechanism: determines what states read.
        dim: width D of the model.

    Raises:
        UserError: the mechanism writes whole words.
    """

    def __init__(self, mechanism: Mechanism, dim: int) -> None:
        super().__init__()
        assert isinstance(mechanism.schedule, SeveralStates), "what the model asks for"
        self.recipe: SeveralStates = mechanism.schedule
        if mechanism.writes_words:
            raise UserError(
                f"mechanism.target_unit=word with mechanism={mechanism.name}: each subword chooses "
                "among its own states; set mechanism.target_unit=subword"
            )
        self.confidence = nn.Linear(2 * dim, 1)

    def spread(
        self, x: Float[Tensor, "B T D"], plan: Plan | None
    ) -> tuple[Float[Tensor, "B N D"], Float[Tensor, "B 1 N N"]]:
        """Each target token once for each of its states, N = T * K in all, and what each sees.

        The mask is given as energies to add, since each layer would convert a boolean mask to
        energies, and keep them.
        """
        read = _reads(plan)
        place = torch.arange(read.shape[1], device=read.device)[None]
        sees = _sees(place, read, place, read)
        energies = torch.zeros_like(sees, dtype=x.dtype).masked_fill_(~sees, -math.inf)
        return x.repeat_interleave(self.recipe.states, 1), energies

    def confident(
        self, states: Float[Tensor, "B N D"], sums: Float[Tensor, "B S D"], read: Int[Tensor, "B N"]
    ) -> Float[Tensor, "B N"]:
        """The logit of translating at each state, from the state and the mean of what it has read.

        Args:
            states: the decoder's last states.
            sums: of the source states up to each token.
            read: the source tokens that each state has read.
        """
        total = sums.gather(1, (read - 1)[..., None].expand(-1, -1, sums.shape[-1]))
        mean = (total / read[..., None]).to(states.dtype)
        logit: Tensor = self.confidence(torch.cat([states, mean], -1))
        return logit[..., 0]

    def start(self, source: Source) -> States:
        """No state yet."""
        none = source.tokens[:, :0]
        length = torch.zeros_like(source.tokens[:, 0])
        return States(none, none, none, none.bool(), length, sums_of(source.states))

    def extend(self, states: States | None, source: Source) -> States:
        """The same after more of the source has been read."""
        assert states is not None, "from `start`"
        later = states.sums[:, -1:] + sums_of(source.states)
        return states._replace(sums=torch.cat([states.sums, later], 1))

    def block(self, token: Int[Tensor, "B"], states: States, ticks: Ticks) -> StateBlock:
        """The states to compute at a target step.

        Args:
            token: the last one written, or BOS.
            states: those before the step.
            ticks: what has been read.
        """
        K = self.recipe.states
        tokens = torch.cat([states.tokens, token[:, None]], 1)
        read, ready = self.recipe.reads(ticks, tokens.shape[1])
        done = nn.functional.pad(states.done, (0, K))
        new = ready & ~done
        needed = new.any(0)
        needed[-K:] = True
        place = needed.nonzero()[:, 0].expand(len(token), -1)  # (B, n)
        stop = read[:, needed]
        own = stop.where(new[:, needed], _NEVER)
        among = torch.cat([states.place, place], 1), torch.cat([states.read, own], 1)
        grown = states._replace(tokens=tokens, place=among[0], read=among[1], done=done | ready)
        return StateBlock(
            tokens=tokens.gather(1, place // K),
            position=place // K,
            read=stop,
            visible=_sees(place, own, *among),
            ready=ready[:, -K:],
            after=grown,
        )

    def of_each_token(self, found: Translation, source: Source, plan: Plan | None) -> Translation:
        """A translation of T * K states with a dimension for the K of each token."""
        read = _reads(plan)
        shape = len(read), -1, self.recipe.states
        confidence = self.confident(found.states, sums_of(source.states), read)
        return found._replace(
            states=found.states.view(*shape, found.states.shape[-1]),
            confidence=confidence.view(shape),
            reads=read.view(shape),
        )

    def step(
        self, network: Network, token: Int[Tensor, "B"], state: TransformerState
    ) -> DecoderStep:
        """The step of the first state that translates and has read no less than the last token."""
        stand = network.clock.step(state.clock, token)
        clock = carried(stand)
        assert isinstance(clock, Ticks), "HMT's states are on a timetable"
        assert state.several is not None, "from `start`"
        block = self.block(token, state.several, clock)
        x = network.embed(block.tokens.view(-1, 1), block.position.view(-1, 1))
        x = x.view(*block.tokens.shape, -1)
        plan = Plan(Stops(block.read[:, None]))
        x, layers, found = network.decoder.look(x, block.visible, state.layers, plan)
        last, read = (y[:, -self.recipe.states :] for y in (network.decoder_norm(x), block.read))
        stops, latest = self._stops(last, read, block), block.ready.sum(1).clamp(min=1) - 1
        first = stops.long().argmax(1).where(stops.any(1), latest)  # the latest if reads are forced
        chosen = torch.arange(len(token), device=token.device), first
        after = block.after._replace(latest=read[chosen])
        weights = [layer.weights[:, :, -self.recipe.states :].transpose(1, 2) for layer in found]
        return DecoderStep(
            logits=network.logits(last[chosen]),
            state=TransformerState(layers, state.step + 1, clock, after),
            positions=read[chosen][:, None].expand(-1, sum(layer.shape[2] for layer in weights)),
            read=read[chosen],
            wants_to_read=~stops.any(1),
            weights=tuple(layer[chosen] for layer in weights),
        )

    def _stops(
        self, last: Float[Tensor, "B K D"], read: Int[Tensor, "B K"], block: StateBlock
    ) -> Bool[Tensor, "B K"]:
        """The states of the next token that translate and have read no less than the last token."""
        translates = self.confident(last, block.after.sums, read).sigmoid() >= self.recipe.threshold
        translates[:, -1] = True
        return translates & block.ready & (read >= block.after.latest[:, None])


def sums_of(states: Float[Tensor, "B S D"]) -> Float[Tensor, "B S D"]:
    """Sums of the source states up to each token, in float32 at least."""
    return wide(states).cumsum(1)


def _reads(plan: Plan | None) -> Int[Tensor, "B N"]:
    """The source tokens that each of the states of a plan reads."""
    assert plan is not None, "a clock plans"
    assert isinstance(plan.alignment, Stops), "clocks plan known stops"
    return plan.alignment.position[:, 0]


def _sees(
    place: Int[Tensor, "#B n"],
    read: Int[Tensor, "B n"],
    places: Int[Tensor, "#B N"],
    reads: Int[Tensor, "B N"],
) -> Bool[Tensor, "B 1 n N"]:
    """Which of N states each of n states sees."""
    earlier = places[:, None] <= place[..., None]
    return (earlier & (reads[:, None] <= read[..., None]))[:, None]
