"""The layers of a Transformer's encoder and decoder (Vaswani et al. 2017)."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Literal, NamedTuple, TypeAlias, TypeVar

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn import functional

from simulmt.attention import TRAINED, Attended, Attention, Moment, Plan, Source, Stand, Stepped
from simulmt.attention.attention import Looked
from simulmt.attention.initial import xavier
from simulmt.attention.scores import ScaledDotProduct, join_heads, split_heads
from simulmt.attention.words import Moves
from simulmt.models.average_embedding import GuidedAttention
from simulmt.models.dropout import Dropout
from simulmt.models.reencoding import PrefixAttention

A = TypeVar("A", Attended, Looked, Stepped)
SourceAttention: TypeAlias = Attention | GuidedAttention | PrefixAttention
"""The kinds of attention to the source that a decoder layer may have."""
ActivationName: TypeAlias = Literal["relu", "silu", "gelu"]
"""What feed-forward layers may have between their linear layers."""
_SMOOTH: Mapping[ActivationName, Callable[[Tensor], Tensor] | None] = {
    "relu": None,  # which dropout includes
    "silu": functional.silu,
    "gelu": functional.gelu,
}


class LayerState(NamedTuple):
    """The state of one decoder layer between two target steps; t tokens are written."""

    self_keys: Float[Tensor, "B H t d"]
    self_values: Float[Tensor, "B H t d"]
    memory: Any
    """The source as the layer's attention sees it."""
    attention: Any
    """The schedule's state; None before the first step, and where a clock decides."""


class SelfAttention(nn.Module):
    """Multi-head self-attention."""

    def __init__(self, dim: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.score = ScaledDotProduct(dim, heads)
        self.value, self.output = xavier(nn.Linear(dim, dim), nn.Linear(dim, dim))

    def forward(self, x: Float[Tensor, "B N D"], visible: Tensor | None) -> Tensor:
        """Contexts (B, N, D) of all positions.

        Args:
            x: the sequence.
            visible: which positions see which, or energies to add, minus infinity where they do
                not; broadcasts to (B, H, N, N). None is causal.
        """
        queries = split_heads(self.score.query(x), self.heads)
        keys, values = self.score.keys(x), split_heads(self.value(x), self.heads)
        context = functional.scaled_dot_product_attention(
            queries, keys, values, attn_mask=visible, is_causal=visible is None
        )
        return self.output(join_heads(context))  # type: ignore[no-any-return]

    def empty(self, like: Float[Tensor, "B S D"]) -> Float[Tensor, "B H 0 d"]:
        """Keys or values of a sequence without positions."""
        d = self.value.out_features // self.heads
        return like.new_empty(len(like), self.heads, 0, d)

    def step(
        self, x: Tensor, keys: Tensor, values: Tensor, visible: Tensor | None = None
    ) -> tuple[Tensor, Tensor, Tensor]:
        """The contexts of more positions, with the keys and values of all positions so far.

        Args:
            x: (B, n, D), the positions.
            keys: those of the N positions before.
            values: those of the N positions before.
            visible: which positions see which, or energies to add; broadcasts to (B, H, n, N + n).
                None for all.
        """
        keys = torch.cat([keys, self.score.keys(x)], 2)
        values = torch.cat([values, split_heads(self.value(x), self.heads)], 2)
        queries = split_heads(self.score.query(x), self.heads)
        context = functional.scaled_dot_product_attention(queries, keys, values, visible)
        return self.output(join_heads(context)), keys, values


class Residual(nn.Module):
    """Residual connection around a sublayer, with layer normalisation before or after it.

    Args:
        dim: width D.
        dropout: on the sublayer's output.
        pre: whether to normalise the sublayer's input; otherwise the sum is normalised.
    """

    def __init__(self, dim: int, dropout: float, pre: bool) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(dim)
        self.dropout = Dropout(dropout)
        self.pre = pre

    def forward(self, x: Tensor, sublayer: Callable[[Tensor], Tensor]) -> Tensor:
        """The result of a sublayer that returns a tensor alone."""
        return self.after(x, sublayer(self.before(x)))

    def before(self, x: Tensor) -> Tensor:
        """The input of the sublayer."""
        return self.norm(x) if self.pre else x

    def after(self, x: Tensor, y: Tensor) -> Tensor:
        """The sum of `x` and the sublayer's output `y`."""
        x = self.dropout.added(x, y)
        return x if self.pre else self.norm(x)


class LayerOptions(NamedTuple):
    """What the layers of encoder and decoder have in common; as of `Transformer`."""

    dim: int
    ffn: int
    heads: int
    dropout: float
    pre: bool
    """Whether sublayers normalise their input; otherwise their output."""
    activation: ActivationName

    def residual(self) -> Residual:
        """A fresh connection around a sublayer."""
        return Residual(self.dim, self.dropout, self.pre)


class EncoderLayer(nn.Module):
    """Self-attention and a feed-forward network."""

    def __init__(self, options: LayerOptions) -> None:
        super().__init__()
        self.self_attention = SelfAttention(options.dim, options.heads)
        self.feed_forward = FeedForward(options)
        self.around_self = options.residual()
        self.around_feed_forward = options.residual()

    def forward(self, x: Tensor, visible: Tensor | None) -> Tensor:
        """States (B, N, D) of all positions; `visible` as in `SelfAttention`."""
        x = self.around_self(x, partial(self.self_attention, visible=visible))
        return self.around_feed_forward(x, self.feed_forward)  # type: ignore[no-any-return]

    def step(
        self, x: Tensor, keys: Tensor, values: Tensor, visible: Tensor | None
    ) -> tuple[Tensor, Tensor, Tensor]:
        """The states of more positions, with the keys and values of all positions so far."""
        h = self.around_self.before(x)
        y, keys, values = self.self_attention.step(h, keys, values, visible)
        x = self.around_self.after(x, y)
        return self.around_feed_forward(x, self.feed_forward), keys, values


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
        memory: Any,
        plan: Plan | None,
        moment: Moment,
    ) -> tuple[Tensor, Attended]:
        """Outputs (B, T, D) of all target steps, and the result of the attention to the source.

        `visible` is as in `SelfAttention`.
        """
        x = self.around_self(x, partial(self.self_attention, visible=visible))
        h = self.around_source.before(x)
        attended = self.source_attention(h, memory, None, plan, moment)
        x = self.around_source.after(x, attended.context)
        return self.around_feed_forward(x, self.feed_forward), attended

    def start(self, source: Source) -> LayerState:
        """The state before the first target step."""
        empty = self.self_attention.empty(source.states)
        return LayerState(empty, empty, self.source_attention.memory(source), None)

    def step(
        self,
        x: Float[Tensor, "B 1 D"],
        visible: Tensor | None,
        state: LayerState,
        stand: Stand | Moves | None,
    ) -> tuple[Tensor, LayerState, Stepped]:
        """One target step: output, next state, and the result of the attention to the source.

        `visible` is as in `SelfAttention.step`.
        """
        attend = partial(
            self.source_attention.step, memory=state.memory, state=state.attention, stand=stand
        )
        x, after, stepped = self._go_on(x, visible, state, attend)
        return x, after._replace(attention=stepped.state), stepped

    def replay(
        self, x: Float[Tensor, "B N D"], visible: Tensor | None, state: LayerState, plan: Plan
    ) -> tuple[Float[Tensor, "B N D"], LayerState]:
        """The outputs of N target steps that a clock has planned, and the state after the last."""
        attend = partial(
            self.source_attention, memory=state.memory, state=None, plan=plan, moment=TRAINED
        )
        x, after, _ = self._go_on(x, visible, state, attend)
        return x, after

    def look(
        self, x: Float[Tensor, "B N D"], visible: Tensor | None, state: LayerState, plan: Plan
    ) -> tuple[Float[Tensor, "B N D"], LayerState, Float[Tensor, "B H N S"]]:
        """As `replay`, with the attention to the source; for an `Attention` without additions."""
        assert isinstance(self.source_attention, Attention), "checked when the model was built"
        attend = partial(self.source_attention.look, memory=state.memory, plan=plan)
        x, after, looked = self._go_on(x, visible, state, attend)
        return x, after, looked.weights

    def _go_on(
        self,
        x: Float[Tensor, "B N D"],
        visible: Tensor | None,
        state: LayerState,
        attend: Callable[[Tensor], A],
    ) -> tuple[Float[Tensor, "B N D"], LayerState, A]:
        """The outputs of N more steps, the state with what they wrote, and what `attend` gave."""
        h = self.around_self.before(x)
        written, keys, values = self.self_attention.step(
            h, state.self_keys, state.self_values, visible
        )
        x = self.around_self.after(x, written)
        attended = attend(self.around_source.before(x))
        x = self.around_source.after(x, attended.context)
        x = self.around_feed_forward(x, self.feed_forward)
        return x, state._replace(self_keys=keys, self_values=values), attended


def causal_after(before: int, x: Float[Tensor, "B N D"]) -> Bool[Tensor, "N M"]:
    """Which of M positions each of the newest N sees: those before it, and itself."""
    N = x.shape[1]
    return x.new_ones(N, before + N, dtype=torch.bool).tril(before)


def visible_after(
    before: int, x: Float[Tensor, "B N D"], start: Int[Tensor, "B 1"], causal: bool = True
) -> Bool[Tensor, "*rows #N M"] | None:
    """Which of M positions the newest N of each sentence see; None if they see all.

    Args:
        before: M - N, the number of positions before, padding included.
        x: the newest positions.
        start: the number of positions before that are real, which come first.
        causal: whether a position sees none of those after it.
    """
    visible = None
    if x.shape[1] > 1:
        visible = causal_after(before, x) | (not causal)
    if (start < before).any():
        place = torch.arange(before + x.shape[1], device=x.device)
        real = ((place < start) | (place >= before))[:, None, None]
        visible = real if visible is None else visible & real
    return visible


class FeedForward(nn.Module):
    """Two linear layers around an activation with dropout."""

    def __init__(self, options: LayerOptions) -> None:
        super().__init__()
        dim, ffn = options.dim, options.ffn
        self.widen, self.narrow = xavier(nn.Linear(dim, ffn), nn.Linear(ffn, dim))
        self.dropout = Dropout(options.dropout)
        self.smooth = _SMOOTH[options.activation]

    def forward(self, x: Float[Tensor, "B N D"]) -> Float[Tensor, "B N D"]:
        """Each position by itself."""
        wide = self.widen(x)
        if self.smooth is None:
            hidden = self.dropout.rectified(wide)
        else:
            hidden = self.dropout(self.smooth(wide))
        return self.narrow(hidden)  # type: ignore[no-any-return]
