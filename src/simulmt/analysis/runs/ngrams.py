"""What BLEU counts of each sentence (Papineni et al. 2002), on sacreBLEU's tokens.

Within a corpus, a number stands for each pair of a sentence and an n-gram, so that one sort for
each n counts the n-grams of all sentences.
"""

from collections import defaultdict
from collections.abc import Callable, Sequence
from functools import lru_cache
from itertools import count

import numpy as np
from numpy.typing import NDArray
from sacrebleu.metrics.bleu import BLEU

from simulmt.scoring.conventions import Bleu

ORDER = 4
"""The longest n-grams that BLEU counts."""
Counts = NDArray[np.int64]


def bleu_counts(predictions: Sequence[str], references: Sequence[str], kind: Bleu) -> Counts:
    """Return the lengths of prediction and reference, and the matched and all n-grams, (N, 10).

    Each is what sacreBLEU counts of the sentence. n-grams have columns for n = 1, 2, 3, 4.

    Args:
        predictions: Plain text, N sentences.
        references: The same number of sentences.
        kind: How text is split into tokens.
    """
    tokens_of = _tokeniser(kind)
    sides = [[tokens_of(text) for text in side] for side in (predictions, references)]
    lengths = np.array([[len(tokens) for tokens in side] for side in sides])  # (2, N)
    numbers = defaultdict[str, int](count().__next__)
    words = np.array([numbers[token] for side in sides for tokens in side for token in tokens], int)
    matched = _matched(words, lengths)
    total = np.maximum(lengths[0][:, None] - np.arange(ORDER), 0)
    return np.column_stack([*lengths, matched, total])


def _matched(words: Counts, lengths: Counts) -> Counts:
    """Return how many n-grams of each prediction are in its reference, (N, 4).

    Args:
        words: The number of each token of all predictions, then of all references, (tokens,).
        lengths: The tokens of each prediction and of each reference, (2, N).
    """
    sentences = lengths.shape[1]
    sentence = np.repeat(np.tile(np.arange(sentences), 2), lengths.ravel())
    end = np.repeat(lengths.cumsum(), lengths.ravel())
    starts = np.arange(len(words))  # the first word of each n-gram
    grams = sentence  # the number of each n-gram with its sentence; at first of no words
    columns = []
    for further in range(ORDER):
        inside = starts + further < end[starts]
        starts, grams = starts[inside], grams[inside]
        longer = grams * len(words) + words[starts + further]
        _, first, grams = np.unique(longer, return_index=True, return_inverse=True)
        is_written = starts < lengths[0].sum()
        said, meant = (
            np.bincount(grams[side], minlength=len(first)) for side in (is_written, ~is_written)
        )
        both = np.minimum(said, meant)
        columns.append(np.bincount(sentence[starts[first]], both, minlength=sentences))
    return np.column_stack(columns).astype(int)


@lru_cache
def _tokeniser(kind: Bleu) -> Callable[[str], list[str]]:
    """Return sacreBLEU's tokeniser, which remembers the last sentences, for all runs."""
    split: Callable[[str], str] = BLEU(tokenize=kind.tokenize).tokenizer
    if kind.lowercase:
        return lambda text: split(text.lower().rstrip()).split()
    return lambda text: split(text.rstrip()).split()
