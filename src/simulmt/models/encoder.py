"""A Transformer's encoder (Vaswani et al. 2017): on all tokens at once, or on some at a time."""

from collections.abc import Iterable
from functools import partial
from typing import TypeAlias, cast

from jaxtyping import Float
from torch import Tensor, nn

from simulmt.models.layers import FeedForward, LayerOptions, SelfAttention, again

Encoded: TypeAlias = tuple[tuple[Float[Tensor, "B H _ d"], Float[Tensor, "B H _ d"]], ...]
"""Keys and values of the tokens so far, for each layer of an encoder."""


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


class Encoder(nn.ModuleList):
    """Layers, each on the states of the one before."""

    recompute: bool = False
    """True if the backward pass computes each layer again."""

    def forward(self, x: Float[Tensor, "B S D"], visible: Tensor | None) -> Float[Tensor, "B S D"]:
        """States of all tokens; `visible` as in `SelfAttention`."""
        for layer in self._layers():
            x = again(layer, self.recompute)(x, visible)
        return x

    def start(self, x: Float[Tensor, "B N D"]) -> Encoded:
        """No token yet; `x` is only an example."""
        empties = (layer.self_attention.empty(x) for layer in self._layers())
        return tuple((empty, empty) for empty in empties)

    def step(
        self, x: Float[Tensor, "B N D"], before: Encoded, visible: Tensor | None
    ) -> tuple[Float[Tensor, "B N D"], Encoded]:
        """States of the next N tokens, and what has been encoded with them."""
        after = []
        for layer, past in zip(self._layers(), before, strict=True):
            x, keys, values = layer.step(x, *past, visible)
            after.append((keys, values))
        return x, tuple(after)

    def _layers(self) -> Iterable[EncoderLayer]:
        return cast("Iterable[EncoderLayer]", self)
