"""Where a model looks while it is made to write a given text, and the words that this links."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from numpy.typing import NDArray
from torch import Tensor

from simulmt.models.model import Model


class Forced(NamedTuple):
    """The attention to a source of S tokens at each of T given target tokens, EOS among both."""

    weights: Float[NDArray[np.float32], "T L H S"]
    positions: Int[NDArray[np.int64], "T LH"]
    """Where each head of each layer stopped, from 1; 0 once it has run off the end."""


@torch.inference_mode()
def force(
    model: Model,
    source: Int[Tensor, "B S"],
    source_mask: Bool[Tensor, "B S"],
    target_input: Int[Tensor, "B T"],
    target_mask: Bool[Tensor, "B T"],
) -> Iterator[Forced]:
    """Write given targets step by step, reading as in decoding: what `greedy` does of its own.

    Args:
        model: in evaluation mode.
        source: token ids, EOS last, padded on the right.
        source_mask: True for real tokens.
        target_input: what the decoder reads, BOS first.
        target_mask: True for the real tokens that are to be written, EOS last.

    Yields:
        The attention of each row, without padding.
    """
    state = model.start(model.encode(source, source_mask))
    weights, positions = [], []
    for token in target_input.unbind(1):
        step = model.step(token, state)
        state = step.state
        weights.append(torch.stack(step.weights, 1).float().cpu())  # (B, L, H, S)
        positions.append(step.positions.cpu())
    looked, stood = torch.stack(weights, 1).numpy(), torch.stack(positions, 1).numpy()
    sizes = zip(source_mask.sum(1).tolist(), target_mask.sum(1).tolist(), strict=True)
    for row, (read, written) in enumerate(sizes):
        yield Forced(looked[row, :written, ..., :read], stood[row, :written])


def word_weights(
    weights: Float[NDArray[np.float32], "T S"],
    source_words: Sequence[int],
    target_words: Sequence[int],
) -> Float[NDArray[np.float64], "J I"]:
    """From subwords to words: the sum over those of a source word, the mean over a target word's.

    So a row sums to what it did.

    Args:
        weights: at each target subword.
        source_words: 1-based word of each source subword, I at most.
        target_words: 1-based word of each target subword, J at most.
    """
    merged = np.zeros((max(target_words, default=0), max(source_words, default=0)))
    for row, word in zip(weights, target_words, strict=True):
        np.add.at(merged[word - 1], np.array(source_words) - 1, row)
    return merged / np.bincount(target_words, minlength=1)[1:, None]


def strongest(merged: Float[NDArray[np.float64], "J I"]) -> frozenset[tuple[int, int]]:
    """The source word that each target word looks at most.

    None where that is the last one, EOS, or where it looks at nothing.
    """
    best = merged.argmax(1) if merged.size else []
    eos = merged.shape[1] - 1
    return frozenset((int(i), j) for j, i in enumerate(best) if i < eos and merged[j, i] > 0)


def stops(
    positions: Int[NDArray[np.int64], "T"],
    source_words: Sequence[int],
    target_words: Sequence[int],
) -> frozenset[tuple[int, int]]:
    """The source word at which a head stood when a target word's last subword was written.

    None where that was EOS, or off the end.
    """
    last = {word: step for step, word in enumerate(target_words)}
    stood = {word: int(positions[step]) for word, step in last.items()}
    return frozenset(
        (source_words[position - 1] - 1, word - 1)
        for word, position in stood.items()
        if 0 < position < len(source_words)
    )
