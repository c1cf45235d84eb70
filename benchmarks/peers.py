"""Training steps of other Transformers of the same size, each with its own code throughout.

Masks, dropout, the decoder's input and the smoothed loss are those of the peer or plain torch; only
the batch and the sizes are ours. All of them apply dropout in the same places: on embeddings, on
sublayers and after the ReLU. Dropout on attention would prevent torch from using its fused kernel.
By default, Marian has no dropout after the ReLU; this form is also measured.
"""

from __future__ import annotations

import importlib.util
import math
import os
from collections.abc import Callable
from functools import partial
from typing import Any, TypeAlias

import torch
from steps import Step
from torch import Tensor, nn
from torch.nn import functional

from simulmt.models.vocabulary import Vocabulary
from simulmt.objective.batch import Batch

MARIAN = "transformers' Marian"
HAS_MARIAN = importlib.util.find_spec("transformers") is not None
WITHOUT_MARIAN = "transformers is not installed: pip install --group bench"

Peer: TypeAlias = Callable[[int, dict[str, Any], float, Batch], Step]


def smoothed_loss(logits: Tensor, target: Tensor, smoothing: float) -> Tensor:
    """The mean over target tokens, as torch computes it."""
    return functional.cross_entropy(
        logits.flatten(0, 1),
        target.flatten(),
        ignore_index=Vocabulary(0).pad,
        label_smoothing=smoothing,
    )


class TorchTransformer(nn.Module):
    """`torch.nn.Transformer` between tied embeddings, as its documentation uses it."""

    def __init__(self, size: int, sizes: dict[str, Any]) -> None:
        super().__init__()
        self.dim = dim = sizes["dim"]
        self.embedding = nn.Embedding(size, dim)
        nn.init.normal_(self.embedding.weight, std=dim**-0.5)
        self.dropout = nn.Dropout(sizes["dropout"])
        self.layers = nn.Transformer(
            dim,
            sizes["heads"],
            sizes["encoder_layers"],
            sizes["decoder_layers"],
            sizes["ffn"],
            sizes["dropout"],
            batch_first=True,
            norm_first=sizes["norm"] == "pre",
        )
        for part in self.layers.modules():
            if isinstance(part, nn.MultiheadAttention):
                part.dropout = 0.0
        half = torch.arange(dim // 2) * (-2 * math.log(10000.0) / dim)
        angle = torch.arange(1024)[:, None] * half.exp()
        self.register_buffer("places", torch.cat([angle.sin(), angle.cos()], -1))

    def _embed(self, tokens: Tensor) -> Tensor:
        x = self.embedding(tokens) * math.sqrt(self.dim) + self.places[: tokens.shape[1]]  # type: ignore[index]
        embedded: Tensor = self.dropout(x)
        return embedded

    def forward(self, source: Tensor, mask: Tensor, target: Tensor) -> Tensor:
        """Logits; the encoder is causal, like ours."""
        future = [_future(x.shape[1]) for x in (source, target)]
        states = self.layers.encoder(self._embed(source), future[0], is_causal=True)
        out = self.layers.decoder(
            self._embed(target),
            states,
            future[1],
            memory_key_padding_mask=~mask,
            tgt_is_causal=True,
        )
        return functional.linear(out, self.embedding.weight)


def _future(length: int) -> Tensor:
    """The mask that hides all later positions from each position."""
    return nn.Transformer.generate_square_subsequent_mask(length)


def torch_step(size: int, sizes: dict[str, Any], smoothing: float, given: Batch) -> Step:
    """A step of `torch.nn.Transformer`."""
    network = TorchTransformer(size, sizes).train()

    def loss() -> Tensor:
        logits = network(given.source, given.source_mask, given.target_input)
        return smoothed_loss(logits, given.target, smoothing)

    return _stepping(network, loss)


def marian_step(
    size: int, sizes: dict[str, Any], smoothing: float, given: Batch, after_relu: bool = True
) -> Step:
    """A step of `transformers.MarianMTModel`, with random weights; nothing is downloaded."""
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    from transformers import MarianConfig, MarianMTModel  # noqa: PLC0415 - seconds, and optional
    from transformers.models.marian.modeling_marian import shift_tokens_right  # noqa: PLC0415

    special = Vocabulary(size)
    options = MarianConfig(
        vocab_size=size,
        d_model=sizes["dim"],
        encoder_layers=sizes["encoder_layers"],
        decoder_layers=sizes["decoder_layers"],
        encoder_ffn_dim=sizes["ffn"],
        decoder_ffn_dim=sizes["ffn"],
        encoder_attention_heads=sizes["heads"],
        decoder_attention_heads=sizes["heads"],
        activation_function="relu",
        dropout=sizes["dropout"],
        activation_dropout=sizes["dropout"] if after_relu else 0.0,
        attention_dropout=0.0,
        scale_embedding=True,
        pad_token_id=special.pad,
        eos_token_id=special.eos,
        forced_eos_token_id=None,
        decoder_start_token_id=special.bos,
    )
    network = MarianMTModel(options).train()
    network.set_attn_implementation("sdpa")

    def loss() -> Tensor:
        out = network(
            input_ids=given.source,
            attention_mask=given.source_mask,
            decoder_input_ids=shift_tokens_right(given.target, special.pad, special.bos),
            use_cache=False,
        )
        return smoothed_loss(out.logits, given.target, smoothing)

    return _stepping(network, loss)


PEERS: dict[str, Peer] = {"torch.nn.Transformer": torch_step}
"""The installed peers. Each takes the number of subwords, the options of `conf/model`, the
smoothing and the batch."""
if HAS_MARIAN:
    PEERS[MARIAN] = marian_step
    PEERS[f"{MARIAN} by default"] = partial(marian_step, after_relu=False)


def _stepping(network: nn.Module, loss: Callable[[], Tensor]) -> Step:
    """Forward, backward, Adam, as in `steps`."""
    adam = torch.optim.Adam(network.parameters(), lr=1e-4, fused=True)

    def run() -> None:
        torch.autograd.backward(loss())
        adam.step()
        adam.zero_grad()

    return run
