"""Models that are forced to write given targets, in words."""

from collections.abc import Iterable, Iterator

import torch

from simulmt.data.tokenizer import Tokenizer
from simulmt.decoding.forced import Forced, force
from simulmt.decoding.word_map import WordMap
from simulmt.models.model import Model
from simulmt.objective.batch import Batch


def forced_words(
    model: Model, subwords: Tokenizer, batches: Iterable[Batch], device: torch.device
) -> Iterator[tuple[int, Forced, WordMap, WordMap]]:
    """Force a model to write the targets of some batches.

    Args:
        model: The model in evaluation mode, on `device`.
        subwords: The model's vocabulary.
        batches: The sentences.
        device: The model's device.

    Yields:
        The place of a sentence in its split, what the model did, and the words of the subwords of
        source and target, without EOS.
    """
    for batch in batches:
        tensors = [batch.source, batch.source_mask, batch.target_input]
        tensors += [batch.target, batch.target_mask]
        forced = force(model, *(tensor.to(device) for tensor in tensors))
        pairs = zip(batch.index.tolist(), batch.source.tolist(), batch.target.tolist(), strict=True)
        for (index, source, target), sentence in zip(pairs, forced, strict=True):
            steps, _, _, read = sentence.weights.shape
            words = subwords.words_touched(source[: read - 1])
            yield index, sentence, words, subwords.target_words(target[: steps - 1])
