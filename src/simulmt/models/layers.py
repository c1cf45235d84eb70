"""What Transformers are made of besides the attention to the source."""

from __future__ import annotations

import math

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional

from simulmt.attention.scores import ScaledDotProduct, join_heads, split_heads


class SelfAttention(nn.Module):
    """Multi-head self-attention, causal unless told what is visible."""

    def __init__(self, dim: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.score = ScaledDotProduct(dim, heads)
        self.value = nn.Linear(dim, dim)
        self.output = nn.Linear(dim, dim)
        for projection in (self.value, self.output):
            nn.init.xavier_uniform_(projection.weight)
            nn.init.zeros_(projection.bias)

    def forward(self, x: Float[Tensor, "B N D"], visible: Tensor | None) -> Tensor:
        """Attend within the sequence; `visible` broadcasts to (B, H, N, N), None is causal."""
        queries = split_heads(self.score.query(x), self.heads)
        keys, values = self.score.keys(x), split_heads(self.value(x), self.heads)
        context = functional.scaled_dot_product_attention(
            queries, keys, values, attn_mask=visible, is_causal=visible is None
        )
        return self.output(join_heads(context))  # type: ignore[no-any-return]

    def empty(self, like: Float[Tensor, "B S D"]) -> Float[Tensor, "B H 0 d"]:
        """Keys or values of nothing yet."""
        B, _, D = like.shape
        return like.new_empty(B, self.heads, 0, D // self.heads)

    def step(self, x: Tensor, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Attend from one new position to itself and all before it."""
        keys = torch.cat([keys, self.score.keys(x)], 2)
        values = torch.cat([values, split_heads(self.value(x), self.heads)], 2)
        queries = split_heads(self.score.query(x), self.heads)
        context = functional.scaled_dot_product_attention(queries, keys, values)
        return self.output(join_heads(context)), keys, values


class Residual(nn.Module):
    """Normalise before a sublayer, or after adding what it gives."""

    def __init__(self, dim: int, dropout: float, pre: bool) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(dim)
        self.dropout = nn.Dropout(dropout)
        self.pre = pre

    def before(self, x: Tensor) -> Tensor:
        """What the sublayer gets."""
        return self.norm(x) if self.pre else x

    def after(self, x: Tensor, y: Tensor) -> Tensor:
        """What the sublayer's output `y` becomes, added to `x`."""
        x = x + self.dropout(y)
        return x if self.pre else self.norm(x)


def feed_forward(dim: int, ffn: int, dropout: float) -> nn.Sequential:
    """Two linear layers around a ReLU."""
    widen, narrow = nn.Linear(dim, ffn), nn.Linear(ffn, dim)
    for layer in (widen, narrow):
        nn.init.xavier_uniform_(layer.weight)
        nn.init.zeros_(layer.bias)
    return nn.Sequential(widen, nn.ReLU(), nn.Dropout(dropout), narrow)


def sinusoids(first: Int[Tensor, "B 1"], count: int, dim: int) -> Float[Tensor, "B N D"]:
    """Sinusoidal positions `first, first + 1, ...` (Vaswani et al. 2017, section 3.5)."""
    half = dim // 2
    rate = torch.exp(torch.arange(half, device=first.device) * (-math.log(10000.0) / half))
    place = first + torch.arange(count, device=first.device)
    angle = place[..., None] * rate
    return torch.cat([angle.sin(), angle.cos()], -1)
