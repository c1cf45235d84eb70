"""The Transformer (Vaswani et al. 2017) with a monotonic mechanism in every decoder layer.

The encoder is causal for every mechanism that streams (Ma et al. 2020), so that the states of a
prefix do not depend on what follows and decoding the whole source with hard positions is exactly
streaming. Source and target share one vocabulary and one embedding matrix.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import NamedTuple, cast

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn import functional

from simulmt.attention import Attended, Mechanism, Memory
from simulmt.attention.scores import ScaledDotProduct
from simulmt.errors import UserError
from simulmt.models.layers import Residual, SelfAttention, feed_forward, sinusoids
from simulmt.models.state import DecoderState, DecoderStep, LayerState


class Translation(NamedTuple):
    """What teacher forcing gives."""

    logits: Float[Tensor, "B T V"]
    alpha: Float[Tensor, "B LH T S"] | None
    """Expected alignment of all heads of all layers; None where the schedule is fixed."""


class Transformer(nn.Module):
    """Encoder, decoder and tied embeddings.

    Args:
        vocabulary: number of subwords, shared by both languages.
        mechanism: builds the attention to the source in every decoder layer.
        dim: width D of the model.
        ffn: width of the feed-forward layers.
        heads: attention heads H; a single-head mechanism uses one towards the source.
        encoder_layers: number of encoder layers.
        decoder_layers: number of decoder layers.
        dropout: on embeddings and on what each sublayer adds.
        norm: "pre" or "post" layer normalisation.
        encoder: "causal" or "bidirectional"; the latter for offline mechanisms only.

    Raises:
        UserError: options that do not go together.
    """

    usual_beam = 5  # where the whole sentence is read first

    def __init__(
        self,
        *,
        vocabulary: int,
        mechanism: Mechanism,
        dim: int,
        ffn: int,
        heads: int,
        encoder_layers: int,
        decoder_layers: int,
        dropout: float,
        norm: str,
        encoder: str,
    ) -> None:
        super().__init__()
        _check(mechanism, dim, heads, norm, encoder)
        self.dim = dim
        self.causal = encoder == "causal"
        self.embedding = nn.Embedding(vocabulary, dim)
        nn.init.normal_(self.embedding.weight, std=dim**-0.5)
        self.dropout = nn.Dropout(dropout)
        pre = norm == "pre"
        self.encoder = nn.ModuleList(
            EncoderLayer(dim, ffn, heads, dropout, pre) for _ in range(encoder_layers)
        )
        self.decoder = nn.ModuleList(
            DecoderLayer(mechanism, dim, ffn, heads, dropout, pre) for _ in range(decoder_layers)
        )
        self.encoder_norm = nn.LayerNorm(dim) if pre else nn.Identity()
        self.decoder_norm = nn.LayerNorm(dim) if pre else nn.Identity()

    def encode(
        self, source: Int[Tensor, "B S"], mask: Bool[Tensor, "B S"]
    ) -> Float[Tensor, "B S D"]:
        """States of the source; those of a causal encoder depend on their prefix only."""
        x = self._embed(source, torch.zeros_like(source[:, :1]))
        visible = None if self.causal else mask[:, None, None]
        for layer in self.encoder:
            x = layer(x, visible)
        return self.encoder_norm(x)  # type: ignore[no-any-return]

    def forward(
        self,
        source: Int[Tensor, "B S"],
        source_mask: Bool[Tensor, "B S"],
        target_input: Int[Tensor, "B T"],
    ) -> Translation:
        """Teacher forcing: logits of each next target token, in expectation over reading."""
        states = self.encode(source, source_mask)
        finished = torch.ones_like(source_mask[:, 0])
        x = self._embed(target_input, torch.zeros_like(target_input[:, :1]))
        alphas = []
        for layer in self._layers():
            memory = layer.source_attention.memory(states, source_mask, finished)
            x, attended = layer(x, memory)
            alphas.append(attended.alpha)
        learned = [alpha for alpha in alphas if alpha is not None]
        return Translation(self._logits(x), torch.cat(learned, 1) if learned else None)

    def start(
        self,
        states: Float[Tensor, "B S D"],
        mask: Bool[Tensor, "B S"],
        finished: Bool[Tensor, "B"],
    ) -> DecoderState:
        """The decoder before its first target step, on what has been read of the source."""
        layers = tuple(layer.start(states, mask, finished) for layer in self._layers())
        return DecoderState(layers, torch.zeros_like(mask[:, 0], dtype=torch.long))

    def step(self, token: Int[Tensor, "B"], state: DecoderState) -> DecoderStep:
        """Take in the last written token and give the next one's logits, reading hard."""
        x = self._embed(token[:, None], state.step[:, None])
        layers, positions = [], []
        wants = torch.zeros_like(state.layers[0].memory.finished)
        for layer, before in zip(self._layers(), state.layers, strict=True):
            x, after, position, wants_more = layer.step(x, before)
            layers.append(after)
            positions.append(position)
            wants = wants | wants_more
        stood = torch.cat(positions, 1)  # (B, L*H)
        length = state.layers[0].memory.length
        read = stood.where(stood > 0, length[:, None]).amax(1)
        after_all = DecoderState(tuple(layers), state.step + 1)
        return DecoderStep(self._logits(x)[:, 0], after_all, stood, read, wants)

    def _layers(self) -> Iterable[DecoderLayer]:
        return cast("Iterable[DecoderLayer]", self.decoder)

    def _embed(self, tokens: Int[Tensor, "B N"], first: Int[Tensor, "B 1"]) -> Tensor:
        x = self.embedding(tokens) * math.sqrt(self.dim)
        embedded: Tensor = self.dropout(x + sinusoids(first, tokens.shape[1], self.dim).to(x.dtype))
        return embedded

    def _logits(self, x: Float[Tensor, "B T D"]) -> Float[Tensor, "B T V"]:
        return functional.linear(self.decoder_norm(x), self.embedding.weight)


class EncoderLayer(nn.Module):
    """Self-attention and a feed-forward network."""

    def __init__(self, dim: int, ffn: int, heads: int, dropout: float, pre: bool) -> None:
        super().__init__()
        self.self_attention = SelfAttention(dim, heads)
        self.feed_forward = feed_forward(dim, ffn, dropout)
        self.around_self = Residual(dim, dropout, pre)
        self.around_feed_forward = Residual(dim, dropout, pre)

    def forward(self, x: Tensor, visible: Tensor | None) -> Tensor:
        """Causal where `visible` is None, else attending to all that is visible."""
        h = self.around_self.before(x)
        x = self.around_self.after(x, self.self_attention(h, visible))
        h = self.around_feed_forward.before(x)
        return self.around_feed_forward.after(x, self.feed_forward(h))


class DecoderLayer(nn.Module):
    """Self-attention, the mechanism's attention to the source, a feed-forward network."""

    def __init__(
        self, mechanism: Mechanism, dim: int, ffn: int, heads: int, dropout: float, pre: bool
    ) -> None:
        super().__init__()
        self.self_attention = SelfAttention(dim, heads)
        self.source_attention = mechanism.attention(ScaledDotProduct, dim=dim, heads=heads)
        self.feed_forward = feed_forward(dim, ffn, dropout)
        self.around_self = Residual(dim, dropout, pre)
        self.around_source = Residual(dim, dropout, pre)
        self.around_feed_forward = Residual(dim, dropout, pre)

    def forward(self, x: Float[Tensor, "B T D"], memory: Memory) -> tuple[Tensor, Attended]:
        """All target steps at once."""
        h = self.around_self.before(x)
        x = self.around_self.after(x, self.self_attention(h, None))
        h = self.around_source.before(x)
        state = self.source_attention.schedule.initial_state(memory)
        attended = self.source_attention(h, memory, state)
        x = self.around_source.after(x, attended.context)
        h = self.around_feed_forward.before(x)
        return self.around_feed_forward.after(x, self.feed_forward(h)), attended

    def start(self, states: Tensor, mask: Tensor, finished: Tensor) -> LayerState:
        """Nothing written yet."""
        memory = self.source_attention.memory(states, mask, finished)
        empty = self.self_attention.empty(states)
        position = self.source_attention.schedule.initial_position(memory)
        return LayerState(empty, empty, memory, position)

    def step(
        self, x: Float[Tensor, "B 1 D"], state: LayerState
    ) -> tuple[Tensor, LayerState, Tensor, Tensor]:
        """One target step: output, next state, where the heads stopped, who wants to read."""
        h = self.around_self.before(x)
        written, keys, values = self.self_attention.step(h, state.self_keys, state.self_values)
        x = self.around_self.after(x, written)
        h = self.around_source.before(x)
        stepped = self.source_attention.step(h, state.memory, state.attention)
        x = self.around_source.after(x, stepped.context)
        h = self.around_feed_forward.before(x)
        x = self.around_feed_forward.after(x, self.feed_forward(h))
        after = LayerState(keys, values, state.memory, stepped.state)
        return x, after, stepped.position, stepped.wants_to_read


def _check(mechanism: Mechanism, dim: int, heads: int, norm: str, encoder: str) -> None:
    if heads < 1 or dim < 1 or dim % (2 * heads):
        raise UserError(
            f"model.dim is {dim}, model.heads {heads}; dim must be a positive multiple of 2 * heads"
        )
    if norm not in ("pre", "post"):
        raise UserError(f"model.norm is {norm!r}; choose pre or post")
    if encoder not in ("causal", "bidirectional"):
        raise UserError(f"model.encoder is {encoder!r}; choose causal or bidirectional")
    if encoder == "bidirectional" and not mechanism.offline:
        raise UserError(
            f"model.encoder=bidirectional reads the whole sentence, mechanism={mechanism.name} "
            "streams; take encoder=causal or mechanism=soft"
        )
