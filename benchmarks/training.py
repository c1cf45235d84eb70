"""Training steps of the Transformer: monotonic attention against soft, soft against torch's own.

    python benchmarks/training.py [--repeats 7]

A step is forward, backward and Adam on one batch, on one CPU thread. Contestants differ in nothing
but the mechanism: all have the causal encoder, and `soft` attends through torch's fused kernel.
torch's own layers get the same embeddings, output, objective and masks, and no dropout on
attention, which the others do not have either and which would keep them from the fused kernel.
Memory is counted where torch allocates it, above parameters and Adam's state.
"""

from __future__ import annotations

import functools
import math
from typing import NamedTuple

import torch
from frame import Result, alone, in_turns, one_thread, ratios, summed_up
from steps import Step, batch, model, peak_bytes, settings, step, vocabulary
from torch import Tensor, nn

from simulmt.models.layers import sinusoids
from simulmt.models.model import Translation
from simulmt.models.projection import Projection


class Size(NamedTuple):
    """A file of `conf/model`, the data that it is for, and how many tokens a batch has."""

    model: str
    data: str
    tokens: int


SIZES = [
    Size("transformer_multi30k", "multi30k_deen", 1000),
    Size("transformer_iwslt15", "iwslt15_envi", 300),
]
LENGTHS = (25, 60, 200)
TARGETS = {
    "mma_il": (1.08, 1.12, 1.20),
    "mma_h": (1.05, 1.08, 1.12),
    "wait_k": (1.05, 1.08, 1.12),
}
"""How many times as long as `soft` a step may take, for each of the lengths."""
MEMORY = 1.5


class TorchTransformer(nn.Module):
    """Layers of `torch.nn` between our embeddings and our output."""

    def __init__(
        self,
        *,
        size: int,
        dim: int,
        ffn: int,
        heads: int,
        encoder_layers: int,
        decoder_layers: int,
        dropout: float,
        norm: str,
    ) -> None:
        super().__init__()
        self.dim = dim
        self.embedding = nn.Embedding(size, dim)
        nn.init.normal_(self.embedding.weight, std=dim**-0.5)
        self.dropout = nn.Dropout(dropout)
        pre = norm == "pre"
        options = {"dropout": dropout, "batch_first": True, "norm_first": pre}
        encoder = nn.TransformerEncoderLayer(dim, heads, ffn, **options)  # type: ignore[arg-type]
        decoder = nn.TransformerDecoderLayer(dim, heads, ffn, **options)  # type: ignore[arg-type]
        for attention in (encoder.self_attn, decoder.self_attn, decoder.multihead_attn):
            attention.dropout = 0.0
        norms = [nn.LayerNorm(dim) if pre else None for _ in range(2)]
        self.encoder = nn.TransformerEncoder(encoder, encoder_layers, norms[0], False)
        self.decoder = nn.TransformerDecoder(decoder, decoder_layers, norms[1])

    def _embed(self, tokens: Tensor) -> Tensor:
        first = torch.zeros_like(tokens[:, :1])
        x = self.embedding(tokens) * math.sqrt(self.dim)
        embedded: Tensor = self.dropout(x + sinusoids(first, tokens.shape[1], self.dim))
        return embedded

    def forward(self, source: Tensor, mask: Tensor, target: Tensor) -> Translation:
        """As `Model.forward`."""
        past_source, past = (_future(x.shape[1]) for x in (source, target))
        states = self.encoder(self._embed(source), past_source, is_causal=True)
        out = self.decoder(
            self._embed(target),
            states,
            past,
            memory_key_padding_mask=~mask,
            tgt_is_causal=True,
        )
        return Translation(out, Projection(self.embedding.weight), (), {})


@functools.cache
def _future(length: int) -> Tensor:
    """What is hidden from each position: all that comes later."""
    return torch.ones(length, length, dtype=torch.bool).triu(1)


def contestants(size: Size, length: int) -> dict[str, Step]:
    """A step for each, all on the same batch."""
    made: dict[str, Step] = {}
    torch.manual_seed(length)
    plain = settings(size.model, size.data, "soft")
    given = batch(size.tokens, length, vocabulary(plain))
    for name in ("soft", *TARGETS):
        config = settings(size.model, size.data, name)
        made[name] = step(model(config), config, given)
    ours = {"name", "encoder", "average_embedding"}
    known = {k: v for k, v in plain["model"].items() if k not in ours}
    theirs = TorchTransformer(size=plain["data"]["subwords"]["size"], **known)
    return made | {"torch": step(theirs, plain, given)}


def of_size(size: Size, repeats: int) -> list[Result]:
    results, memory = [], dict[str, list[float]]()
    for number, length in enumerate(LENGTHS):
        steps = contestants(size, length)
        if number:
            del steps["torch"]
        times = in_turns(steps, repeats)
        at = f"{size.model.removeprefix('transformer_')}, {length} tokens"
        if "torch" in times:
            against = ratios(times["soft"], times["torch"])
            what = f"soft, {at}: times as long as torch.nn.Transformer"
            results.append(summed_up("training step", what, against, most=1.0))
        peaks = {name: peak_bytes(steps[name]) for name in ("soft", *TARGETS)}
        for name, targets in TARGETS.items():
            against = ratios(times[name], times["soft"])
            what = f"{name}, {at}: times as long as soft"
            results.append(summed_up("training step", what, against, most=targets[number]))
            memory.setdefault(name, []).append(peaks[name] / peaks["soft"])
    for name, found in memory.items():
        worst = [max(found)]
        what = f"{name}, {size.model.removeprefix('transformer_')}: memory, times that of soft"
        results.append(summed_up("peak memory", f"{what}, worst length", worst, most=MEMORY))
    return results


def measure(repeats: int) -> list[Result]:
    one_thread()
    return [result for size in SIZES for result in of_size(size, repeats)]


if __name__ == "__main__":
    alone(measure, __doc__)
