"""The word alignments that can be read off a model's attention."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

import torch

from simulmt.alignment.links import Links
from simulmt.attention.attention import Attention
from simulmt.data.encoded import Batch
from simulmt.data.subwords import Subwords
from simulmt.decoding.forced import Forced, force, stops, strongest, word_weights
from simulmt.models.model import Model


class Way(NamedTuple):
    """How links are read off: from attention or from where a head stops; 0 is all together."""

    what: str
    """`attention` or `position`."""
    layer: int
    head: int


Looked = Mapping[Way, list[Links]]
"""For each way the links of each sentence, in their order."""


def attention_links(
    model: Model, subwords: Subwords, batches: Iterable[Batch], device: torch.device
) -> Looked:
    """Make a model write the references, and link each word to where it looked.

    - `attention`: the word with the most attention, the mean over the heads of a layer, and that
      over all layers.
    - `position`: the word at which a head of a learned schedule stopped.

    Args:
        model: in evaluation mode, on `device`.
        subwords: its vocabulary.
        batches: all sentences of a split, in any order.
        device: where the model is.
    """
    heads = [part.heads for part in model.modules() if isinstance(part, Attention)]
    rows: dict[int, dict[Way, Links]] = {}
    for batch in batches:
        given = (batch.source, batch.source_mask, batch.target_input, batch.target_mask)
        found = force(model, *(tensor.to(device) for tensor in given))
        pairs = zip(batch.index.tolist(), batch.source.tolist(), batch.target.tolist(), strict=True)
        for (index, source, target), forced in zip(pairs, found, strict=True):
            steps, _, _, read = forced.weights.shape
            words = subwords.words_touched(source[: read - 1])
            words.append(max(words, default=0) + 1)  # EOS
            written = subwords.words_touched(target[: steps - 1])
            rows[index] = _links(forced, words, written, heads if model.mechanism.learned else [])
    ways = rows[min(rows)] if rows else {}
    return {way: [rows[index][way] for index in sorted(rows)] for way in ways}


def _links(
    forced: Forced, source: list[int], target: list[int], heads: list[int]
) -> dict[Way, Links]:
    """All ways for one sentence; `heads` are those of each layer that stop somewhere."""
    weights = forced.weights[: len(target)].mean(2)  # (T, L, H, S) -> (T, L, S)
    layers = {0: weights.mean(1)} if weights.shape[1] > 1 else {}
    layers |= {layer: weights[:, layer - 1] for layer in range(1, weights.shape[1] + 1)}
    found = {
        Way("attention", layer, 0): strongest(word_weights(looked, source, target))
        for layer, looked in layers.items()
    }
    names = [(layer, head) for layer, n in enumerate(heads, 1) for head in range(1, n + 1)]
    for place, (layer, head) in enumerate(names):
        stood = forced.positions[: len(target), place]
        found[Way("position", layer, head)] = stops(stood, source, target)
    return found
