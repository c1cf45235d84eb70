"""What the layers of a Transformer's encoder and decoder are made of (Vaswani et al. 2017)."""

import math
from collections.abc import Callable, Mapping
from functools import partial
from typing import Literal, NamedTuple, TypeAlias, TypeVar

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

from simulmt.attention.clock import Clock, Side
from simulmt.attention.initial import xavier
from simulmt.attention.scores import ScaledDotProduct
from simulmt.attention.scores.score import join_heads, split_heads
from simulmt.attention.shapes import TokenIds
from simulmt.models.dropout import Dropout

R = TypeVar("R")

ActivationName: TypeAlias = Literal["relu", "silu", "gelu"]
"""What feed-forward layers may have between their linear layers."""
_SMOOTH: Mapping[ActivationName, Callable[[Tensor], Tensor] | None] = {
    "relu": None,  # which dropout includes
    "silu": functional.silu,
    "gelu": functional.gelu,
}


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


def again(layer: Callable[..., R], recompute: bool) -> Callable[..., R]:
    """A layer, or one that keeps its inputs alone and that the backward pass computes again.

    The second time it draws the same random numbers.
    """
    return partial(checkpoint, layer, use_reentrant=False) if recompute else layer


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
    """The options that all layers of encoder and decoder share; see `Transformer`."""

    dim: int
    ffn: int
    heads: int
    dropout: float
    pre: bool
    """True if sublayers normalise their input; otherwise their output."""
    activation: ActivationName

    def residual(self) -> Residual:
        """A fresh connection around a sublayer."""
        return Residual(self.dim, self.dropout, self.pre)


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


def causal_after(before: int, x: Float[Tensor, "B N D"]) -> Bool[Tensor, "N M"]:
    """Which of M positions each of the newest N sees: those before it, and itself."""
    N = x.shape[1]
    return x.new_ones(N, before + N, dtype=torch.bool).tril(before)


def visible_with_past(past: Bool[Tensor, "B P"], count: int) -> Bool[Tensor, "B 1 N N"]:
    """Which of N = P + count positions each sees: itself, and real ones before it.

    Args:
        past: True for real tokens of the past, which is padded on the left.
        count: the number of positions of the present.
    """
    real = functional.pad(past, (0, count), value=True)
    N = real.shape[1]
    own = torch.eye(N, dtype=torch.bool, device=past.device)
    return ((real[:, None] & torch.ones_like(own).tril()) | own)[:, None]


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


def emphasised(
    clock: Clock,
    visible: Bool[Tensor, "*#N M"] | None,
    tokens: TokenIds,
    side: Side,
    before: int = 0,
    start: Int[Tensor, "B 1"] | None = None,
) -> Tensor | None:
    """The mask of self-attention, as energies if the clock gives tokens some for themselves.

    Args:
        clock: gives the energies.
        visible: which of M positions these tokens see; None for all up to their own.
        tokens: those of the source, or the decoder's input.
        side: whose tokens they are.
        before: the number of earlier positions, M - N.
        start: the place of the first token in each sentence; None for 0.
    """
    start = tokens.new_zeros(1, 1) if start is None else start
    energy = clock.emphasis(tokens, start, side)
    if energy is None:
        return visible
    visible = causal_after(before, energy[..., None]) if visible is None else visible
    own = functional.pad(energy.diag_embed()[:, None], (before, 0))  # (B, 1, N, M)
    return own.masked_fill(~visible, -math.inf)
