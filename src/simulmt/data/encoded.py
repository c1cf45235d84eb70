"""Sentence pairs as ids, and batches of them."""

from array import array
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple, TypeAlias

import numpy as np
import torch
from jaxtyping import Bool, Int
from numpy.typing import NDArray
from torch import Tensor
from torch.utils.data import Dataset

from simulmt.data.corpus import Split
from simulmt.data.subwords import Subwords
from simulmt.vocabulary import Vocabulary

Pair = tuple[list[int], list[int], int]  # source and target, each with EOS; place in the split
Rows: TypeAlias = Iterable[Sequence[int]]
"""The ids of each sentence, without EOS."""
_CHUNK = 10_000  # sentences encoded at a time


class Batch(NamedTuple):
    """B pairs; every row ends in EOS, then padding up to the longest row of its side."""

    source: Int[Tensor, "B S"]
    source_mask: Bool[Tensor, "B S"]
    """True for real tokens, EOS among them."""
    target: Int[Tensor, "B T"]
    target_mask: Bool[Tensor, "B T"]
    """True for real tokens, EOS among them."""
    target_input: Int[Tensor, "B T"]
    """The decoder's input: BOS, then the target without its EOS."""
    index: Int[Tensor, "B"]  # type: ignore[assignment]  # hides tuple.index
    """The places of the pairs in their split."""


def collate(pairs: Sequence[Pair], vocabulary: Vocabulary) -> Batch:
    """Return the batch of pairs of ids, each ending in EOS."""
    sources, targets, index = zip(*pairs, strict=True)
    source, source_mask = _pad(sources, vocabulary.pad)
    target, target_mask = _pad(targets, vocabulary.pad)
    shifted = torch.nn.functional.pad(target[:, :-1], (1, 0), value=vocabulary.bos)
    target_input = shifted.masked_fill(~target_mask, vocabulary.pad)
    return Batch(source, source_mask, target, target_mask, target_input, torch.tensor(index))


def _pad(rows: Sequence[list[int]], pad: int) -> tuple[Int[Tensor, "B L"], Bool[Tensor, "B L"]]:
    lengths = [len(row) for row in rows]
    width = max(lengths)
    padded = [row + [pad] * (width - len(row)) for row in rows]
    return torch.tensor(padded), torch.arange(width) < torch.tensor(lengths)[:, None]


class EncodedSplit(Dataset[Pair]):
    """The ids of N pairs, EOS appended to each side: 2 or 4 bytes a token, 16 a pair.

    Args:
        sources: the ids of the sources.
        targets: the ids of the targets.
        vocabulary: the vocabulary of the ids.
    """

    def __init__(self, sources: Rows, targets: Rows, vocabulary: Vocabulary) -> None:
        self.vocabulary = vocabulary
        self._sides = (_pack(sources, vocabulary), _pack(targets, vocabulary))
        assert len(self._sides[0][1]) == len(self._sides[1][1]), "as many sources as targets"

    @classmethod
    def encode(cls, split: Split, subwords: Subwords) -> "EncodedSplit":
        """Return the ids of every pair of a split."""
        sources, targets = (_encode(side, subwords) for side in (split.sources, split.targets))
        return cls(sources, targets, subwords.vocabulary)

    def __len__(self) -> int:
        return len(self._sides[0][1]) - 1

    def __getitem__(self, index: int) -> Pair:
        index = range(len(self))[index]
        source, target = (flat[slice(*ends[index : index + 2])] for flat, ends in self._sides)
        return source.tolist(), target.tolist(), index

    def batch(self, rows: Iterable[int]) -> Batch:
        """Return the batch of the pairs at the given places."""
        return collate([self[row] for row in rows], self.vocabulary)

    @property
    def lengths(self) -> Int[Tensor, "N 2"]:
        """The numbers of tokens of source and target, EOS included."""
        return torch.from_numpy(np.stack([np.diff(ends) for _, ends in self._sides], axis=1))


def _pack(
    rows: Rows, vocabulary: Vocabulary
) -> tuple[NDArray[np.uint16] | NDArray[np.int32], NDArray[np.int64]]:
    """Return all rows end to end, EOS after each, and the bounds of the rows."""
    flat, ends = array("H" if vocabulary.size <= 1 << 16 else "i"), array("q", [0])
    for row in rows:
        flat.extend((*row, vocabulary.eos))
        ends.append(len(flat))
    return np.asarray(flat), np.asarray(ends)


def _encode(sentences: Sequence[str], subwords: Subwords) -> Iterator[list[int]]:
    for start in range(0, len(sentences), _CHUNK):
        yield from subwords.encode_batch(sentences[start : start + _CHUNK])
