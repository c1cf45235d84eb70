"""Attention and delays of a model that writes a given target, and links that follow from them."""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from numpy.typing import NDArray
from torch import Tensor

from simulmt.attention import Source
from simulmt.decoding.word_map import WordMap
from simulmt.models.model import Model
from simulmt.models.results import DecoderStep


def forced_steps(
    model: Model,
    source: Source,
    target_input: Int[Tensor, "B T"],
    target: Int[Tensor, "B T"] | None = None,
) -> Iterator[DecoderStep]:
    """The T target steps of a decoder that writes a given target, with hard decisions.

    Args:
        model: in evaluation mode.
        source: encoded sentences, or prefixes of sentences.
        target_input: the decoder's input, BOS first.
        target: what the steps write. It matters to mechanisms that write words; None for steps that
            do not know what they write, as in training.
    """
    state = model.start(source)
    for number, token in enumerate(target_input.unbind(1)):
        moves = None if target is None else model.begins[target[:, number]]
        step = model.step(token, state, moves)
        state = step.state
        yield step


class Forced(NamedTuple):
    """Attention to S source tokens at each of T given target tokens, and their delays.

    S and T count EOS.
    """

    weights: Float[np.ndarray, "T L H S"]
    positions: Int[np.ndarray, "T LH"]
    """Where each head of each layer stopped, from 1; 0 once it has run off the end."""
    read: Int[np.ndarray, "T"]
    """The source tokens read before each target token is written."""


def force(
    model: Model,
    source: Int[Tensor, "B S"],
    source_mask: Bool[Tensor, "B S"],
    target_input: Int[Tensor, "B T"],
    target: Int[Tensor, "B T"],
    target_mask: Bool[Tensor, "B T"],
) -> Iterator[Forced]:
    """The attention and delays of each sentence while the model writes given targets.

    Args:
        model: in evaluation mode.
        source: token ids, EOS last, padded on the right.
        source_mask: True for real tokens.
        target_input: the decoder's input, BOS first.
        target: the tokens to write, EOS last.
        target_mask: True for the real target tokens.

    Yields:
        Those of each row, without padding.
    """
    weights, positions, reads = [], [], []
    with torch.inference_mode():
        for step in forced_steps(model, model.encode(source, source_mask), target_input, target):
            weights.append(torch.stack(step.weights, 1).float().cpu())  # (B, L, H, S)
            positions.append(step.positions.cpu())
            reads.append(step.read.cpu())
    attention, stopped, read = (torch.stack(x, 1).numpy() for x in (weights, positions, reads))
    lengths = zip(source_mask.sum(1).tolist(), target_mask.sum(1).tolist(), strict=True)
    for row, (S, T) in enumerate(lengths):
        yield Forced(attention[row, :T, ..., :S], stopped[row, :T], read[row, :T])


def word_weights(
    weights: Float[np.ndarray, "T *L S"], source: WordMap, target: WordMap
) -> Float[np.ndarray, "J *L I"]:
    """Attention between words: summed over a source word's subwords, averaged over a target word's.

    Rows keep their sums.

    Args:
        weights: attention between subwords, if any of several layers and heads.
        source: the words of the source subwords.
        target: the words of the target subwords.
    """
    words, starts = np.unique(np.maximum(np.array(source, dtype=int), 1), return_index=True)
    sums = np.zeros((*weights.shape[:-1], words.max(initial=0)))  # 0 for a word without subwords
    sums[..., words - 1] = np.add.reduceat(weights.astype(np.float64), starts, axis=-1)
    # one subword may end several words, and the last ones may belong to none
    ends, group = np.unique(np.array(target.ends, dtype=int), return_inverse=True)
    sizes = np.diff(ends, prepend=0).reshape(-1, *[1] * (weights.ndim - 1))
    written, rows = sums[: ends.max(initial=0)], [0, *ends][:-1]
    averages: NDArray[np.float64] = np.add.reduceat(written, rows, axis=0) / sizes
    return averages[group]


def strongest(merged: Float[np.ndarray, "J I"]) -> frozenset[tuple[int, int]]:
    """Links (source word, target word), from 0, to the source word with the largest weight.

    A target word whose largest weight is at EOS, the last source word, or is 0 has no link.
    """
    best = merged.argmax(1) if merged.size else []
    eos = merged.shape[1] - 1
    return frozenset((int(i), j) for j, i in enumerate(best) if i < eos and merged[j, i] > 0)


def stops(
    positions: Int[np.ndarray, "T"], source: WordMap, target: WordMap
) -> frozenset[tuple[int, int]]:
    """Links (source word, target word), from 0, to where a head stopped.

    The last subword of a target word counts. A head at EOS or off the end has no link.
    """
    stopped = enumerate(int(positions[end - 1]) for end in target.ends)
    return frozenset(
        (source.at(place) - 1, word) for word, place in stopped if 0 < place < len(source)
    )
