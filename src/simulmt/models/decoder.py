"""A Transformer's decoder (Vaswani et al. 2017), with any mechanism's attention to the source."""

from collections.abc import Callable, Iterable
from functools import partial
from typing import NamedTuple, TypeAlias, TypeVar, cast

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from simulmt.attention import TRAINED, Memory, Moment, Source
from simulmt.attention.attention import Attended, Attention, Looked, Stepped
from simulmt.attention.plan import MayMove, Plan, Stand
from simulmt.attention.state import State
from simulmt.models.average_embedding import GuidedAttention
from simulmt.models.layers import FeedForward, LayerOptions, SelfAttention, again
from simulmt.models.reencoding import PrefixAttention

A = TypeVar("A", Attended, Looked, Stepped, Looked | None)
SourceAttention: TypeAlias = Attention | GuidedAttention | PrefixAttention
"""The kinds of attention to the source that a decoder layer may have."""


class LayerState(NamedTuple):
    """The state of one decoder layer between two target steps; t tokens are written."""

    self_keys: Float[Tensor, "B H t d"]
    self_values: Float[Tensor, "B H t d"]
    memory: Memory
    """The source as the layer's attention sees it."""
    attention: State
    """The schedule's state; None before the first step, and where a clock decides."""


Attend: TypeAlias = Callable[[SourceAttention, Float[Tensor, "B N D"], LayerState], A]
"""How further steps attend to the source in a layer; the result is None if they do not."""


class DecoderLayer(nn.Module):
    """Self-attention, the mechanism's attention to the source, a feed-forward network."""

    def __init__(self, attend: Callable[[], SourceAttention], options: LayerOptions) -> None:
        super().__init__()
        self.self_attention = SelfAttention(options.dim, options.heads)
        self.source_attention = attend()
        self.feed_forward = FeedForward(options)
        self.around_self = options.residual()
        self.around_source = options.residual()
        self.around_feed_forward = options.residual()

    def forward(
        self,
        x: Float[Tensor, "B T D"],
        visible: Tensor | None,
        memory: Memory,
        plan: Plan | None,
        moment: Moment,
        past: int = 0,
    ) -> tuple[Tensor, Attended]:
        """Outputs (B, T, D) of all target steps, and the result of the attention to the source.

        `visible` is as in `SelfAttention`. The first `past` steps do not attend to the source.
        """
        x = self.around_self(x, partial(self.self_attention, visible=visible))
        before, x = x[:, :past], x[:, past:]
        h = self.around_source.before(x)
        attended = self.source_attention(h, memory, None, plan, moment)
        x = self.around_source.after(x, attended.context)
        x = torch.cat([before, x], 1) if past else x
        return self.around_feed_forward(x, self.feed_forward), attended

    def start(self, source: Source) -> LayerState:
        """The state before the first target step."""
        empty = self.self_attention.empty(source.states)
        return LayerState(empty, empty, self.source_attention.memory(source), None)

    def go_on(
        self,
        x: Float[Tensor, "B N D"],
        visible: Tensor | None,
        state: LayerState,
        attend: Attend[A],
    ) -> tuple[Float[Tensor, "B N D"], LayerState, A]:
        """The outputs of N more steps, the state with what they wrote, and what `attend` returned.

        `visible` is as in `SelfAttention.step`.
        """
        h = self.around_self.before(x)
        written, keys, values = self.self_attention.step(
            h, state.self_keys, state.self_values, visible
        )
        x = self.around_self.after(x, written)
        attended = attend(self.source_attention, self.around_source.before(x), state)
        if attended is not None:
            x = self.around_source.after(x, attended.context)
        x = self.around_feed_forward(x, self.feed_forward)
        return x, state._replace(self_keys=keys, self_values=values), attended


Decoded: TypeAlias = tuple[LayerState, ...]
"""The state of each layer of a decoder between two target steps."""


class Decoder(nn.ModuleList):
    """Layers, each on the outputs of the one before."""

    recompute: bool = False
    """True if the backward pass computes each layer again."""

    def forward(
        self,
        x: Float[Tensor, "B N D"],
        visible: Tensor | None,
        source: Source,
        plan: Plan | None,
        moment: Moment,
    ) -> tuple[Float[Tensor, "B T D"], list[Attended]]:
        """Outputs of the steps after the past, and each layer's attention; see `DecoderLayer`."""
        found: list[Attended] = []  # a call of list[Attended] could not be compiled
        past = 0 if source.past is None else source.past.target.shape[1]
        for layer in self._layers():
            memory = layer.source_attention.memory(source)
            x, attended = again(layer, self.recompute)(x, visible, memory, plan, moment, past)
            found.append(attended)
        return x[:, past:], found

    def start(self, source: Source) -> Decoded:
        """The state before the first target step."""
        return tuple(layer.start(source) for layer in self._layers())

    def remember(
        self, x: Float[Tensor, "B N D"], visible: Tensor | None, before: Decoded
    ) -> Decoded:
        """The state after N steps of the past, which do not attend to the source."""
        return self._go_on(x, visible, before, lambda *_: None)[1]

    def extended(self, before: Decoded, source: Source) -> Decoded:
        """The state after more of the source has been read."""
        return tuple(
            state._replace(memory=layer.source_attention.extend(state.memory, source))
            for layer, state in zip(self._layers(), before, strict=True)
        )

    def step(
        self,
        x: Float[Tensor, "B 1 D"],
        visible: Tensor | None,
        before: Decoded,
        stand: Stand | MayMove,
    ) -> tuple[Float[Tensor, "B 1 D"], Decoded, list[Stepped]]:
        """One target step: output, next state, and each layer's attention to the source."""

        def attend(attention: SourceAttention, h: Tensor, state: LayerState) -> Stepped:
            return attention.step(h, state.memory, state.attention, stand)

        x, after, found = self._go_on(x, visible, before, attend)
        states = (s._replace(attention=f.state) for s, f in zip(after, found, strict=True))
        return x, tuple(states), found

    def replay(
        self, x: Float[Tensor, "B N D"], visible: Tensor | None, before: Decoded, plan: Plan
    ) -> Decoded:
        """The state after N target steps that a clock has planned."""

        def attend(attention: SourceAttention, h: Tensor, state: LayerState) -> Attended:
            return attention(h, state.memory, None, plan, TRAINED)  # type: ignore[no-any-return]

        return self._go_on(x, visible, before, attend)[1]

    def look(
        self, x: Float[Tensor, "B N D"], visible: Tensor | None, before: Decoded, plan: Plan
    ) -> tuple[Float[Tensor, "B N D"], Decoded, list[Looked]]:
        """As `step`, for N states that a clock has planned and layers with plain `Attention`."""

        def attend(attention: SourceAttention, h: Tensor, state: LayerState) -> Looked:
            assert isinstance(attention, Attention), "checked when the model was built"
            return attention.look(h, state.memory, plan)

        return self._go_on(x, visible, before, attend)

    def _go_on(
        self, x: Float[Tensor, "B N D"], visible: Tensor | None, before: Decoded, attend: Attend[A]
    ) -> tuple[Float[Tensor, "B N D"], Decoded, list[A]]:
        after, found = list[LayerState](), list[A]()
        for layer, state in zip(self._layers(), before, strict=True):
            x, next_state, attended = layer.go_on(x, visible, state, attend)
            after.append(next_state)
            found.append(attended)
        return x, tuple(after), found

    def _layers(self) -> Iterable[DecoderLayer]:
        return cast("Iterable[DecoderLayer]", self)


def seen(states: Decoded, read: Int[Tensor, "B"], finished: Bool[Tensor, "B"]) -> Decoded:
    """A decoder's state as if only `read` source tokens had been read."""
    return tuple(state._replace(memory=state.memory.seen(read, finished)) for state in states)
