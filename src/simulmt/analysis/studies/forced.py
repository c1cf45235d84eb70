"""Models that are forced to write given targets, in words."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple, TypeAlias

from simulmt.alignment.links import Links
from simulmt.attention.attention import Attention
from simulmt.data.corpus import Split
from simulmt.data.tokenizer import Tokenizer
from simulmt.decoding.forced import Forced, force, stops, strongest, word_weights
from simulmt.decoding.word_map import WordMap
from simulmt.models.model import Model
from simulmt.objective.batch import Batch


class LinkSource(NamedTuple):
    """The part of a model that gives links; layer and head count from 1, 0 means all."""

    what: str
    """`attention`, or `position`: where a head stops."""
    layer: int
    head: int


AttentionLinks: TypeAlias = Mapping[LinkSource, Sequence[Links]]
"""The links of each sentence, in their order, for each source."""


def forced_words(
    model: Model, subwords: Tokenizer, split: Split, batches: Iterable[Batch]
) -> Iterator[tuple[int, Forced, WordMap, WordMap]]:
    """Force a model to write the targets of some batches.

    Args:
        model: The model in evaluation mode.
        subwords: The model's vocabulary.
        split: The texts.
        batches: The sentences of the split.

    Yields:
        The place of a sentence in its split, what the model did, and the words of the subwords of
        source and target, without EOS.
    """
    device = model.begins.device
    for batch in batches:
        tensors = [batch.source, batch.source_mask, batch.target_input]
        tensors += [batch.target, batch.target_mask]
        forced = force(model, *(tensor.to(device) for tensor in tensors))
        for index, sentence in zip(batch.index.tolist(), forced, strict=True):
            words = subwords.source_words(split.sources[index])
            yield index, sentence, words, subwords.reference_words(split.targets[index])


def attention_links(
    model: Model, subwords: Tokenizer, split: Split, batches: Iterable[Batch]
) -> AttentionLinks:
    """Force a model to write the references, and return the links of each word by source.

    - `attention` links the word with the most attention: the mean over the heads of a layer, and
      the mean over all layers.
    - `position` links the word at which a head of a learned schedule stopped.

    Args:
        model: The model in evaluation mode.
        subwords: The model's vocabulary.
        split: The texts.
        batches: All sentences of the split, in any order.
    """
    heads = [part.heads for part in model.modules() if isinstance(part, Attention)]
    rows: dict[int, dict[LinkSource, Links]] = {}
    for index, forced, words, written in forced_words(model, subwords, split, batches):
        source = WordMap((*words, max(words, default=0) + 1))  # EOS
        rows[index] = _links(forced, source, written, heads if model.mechanism.learned else [])
    sources = rows[min(rows)] if rows else {}
    return {source: [rows[index][source] for index in sorted(rows)] for source in sources}


def _links(
    forced: Forced, source: WordMap, target: WordMap, heads: list[int]
) -> dict[LinkSource, Links]:
    """Return the links of a sentence; `heads` counts the stopping heads of each layer."""
    weights = forced.weights[: len(target)].mean(2)  # (T, L, H, S) -> (T, L, S)
    layers = {0: weights.mean(1)} if weights.shape[1] > 1 else {}
    layers |= dict(enumerate(weights.swapaxes(0, 1), start=1))
    links = {
        LinkSource("attention", layer, 0): strongest(word_weights(attention, source, target))
        for layer, attention in layers.items()
    }
    names = [(layer, head) for layer, n in enumerate(heads, 1) for head in range(1, n + 1)]
    for place, (layer, head) in enumerate(names):
        positions = forced.positions[: len(target), place]
        links[LinkSource("position", layer, head)] = stops(positions, source, target)
    return links
