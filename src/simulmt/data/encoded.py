"""Sentence pairs as ids, and batches of them."""

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Int
from torch import Tensor

from simulmt.data.corpus import Split
from simulmt.data.lines import as_lines
from simulmt.data.ragged import Ragged
from simulmt.data.store import SIDES, Entry, digest, write_sides
from simulmt.data.tokenizer import ENCODER, Tokenizer
from simulmt.data.workers import in_order
from simulmt.models.vocabulary import Vocabulary
from simulmt.objective.batch import Batch
from simulmt.system.console import counted

_BLOCK = 10_000  # pairs


class EncodedSplit:
    """The ids of N pairs, EOS appended to each side: 2 or 4 bytes a token, 16 a pair.

    Args:
        sources: the rows of the sources.
        targets: the rows of the targets.
        vocabulary: the vocabulary of the ids.
    """

    def __init__(self, sources: Ragged, targets: Ragged, vocabulary: Vocabulary) -> None:
        assert len(sources) == len(targets), "as many sources as targets"
        self.sources, self.targets = sources, targets
        self.vocabulary = vocabulary

    @classmethod
    def of(
        cls,
        sources: Iterable[Sequence[int]],
        targets: Iterable[Sequence[int]],
        vocabulary: Vocabulary,
    ) -> "EncodedSplit":
        """Return the pairs with the given ids, which lack EOS."""
        sides = ([[*row, vocabulary.eos] for row in rows] for rows in (sources, targets))
        left, right = (Ragged.of(side, vocabulary.dtype) for side in sides)
        return cls(left, right, vocabulary)

    @classmethod
    def encode(cls, split: Split, subwords: Tokenizer, cache: Path | None = None) -> "EncodedSplit":
        """Return the ids of every pair of a split.

        Args:
            split: the pairs.
            subwords: the subwords of both languages.
            cache: the folder that keeps the ids; None to hold them in memory.

        Raises:
            UserError: the cache cannot be written.
        """
        vocabulary = subwords.vocabulary
        if cache is None:
            parts = zip(*_encoded(split, subwords), strict=True)
            sources, targets = (Ragged.joined(side) for side in parts)
        else:
            key = digest([split.sha256, subwords.digest, ENCODER])
            entry = Entry(cache / "ids" / key, partial(_write, split, subwords))
            sources, targets = (entry.rows(side, vocabulary.dtype) for side in SIDES)
        return cls(sources, targets, vocabulary)

    def __len__(self) -> int:
        return len(self.sources)

    def batch(self, rows: Sequence[int]) -> Batch:
        """Return the batch of the pairs at the given places."""
        index = np.asarray(rows, np.int64)
        source, source_mask = self.sources.padded(index, self.vocabulary.pad)
        target, target_mask = self.targets.padded(index, self.vocabulary.pad)
        target_input = np.full_like(target, self.vocabulary.bos)
        target_input[:, 1:] = target[:, :-1]
        target_input[~target_mask] = self.vocabulary.pad
        ends = self.sources.lengths[index].astype(np.int64) - 1
        parts = source, source_mask, target, target_mask, target_input, index, ends
        tensors: list[Any] = [torch.from_numpy(part) for part in parts]
        return Batch(*tensors)

    @property
    def lengths(self) -> Int[Tensor, "N 2"]:
        """The numbers of tokens of source and target, EOS included."""
        sides = self.sources.lengths, self.targets.lengths
        return torch.from_numpy(np.stack(sides, axis=1))


def _encoded(split: Split, subwords: Tokenizer) -> Iterator[tuple[Ragged, Ragged]]:
    """Return the ids of both sides of a split, in at least one block of pairs."""
    sources, targets = (as_lines(lines).rows for lines in (split.sources, split.targets))
    starts = range(0, max(len(split), 1), _BLOCK)
    blocks = ((sources.part(n, n + _BLOCK), targets.part(n, n + _BLOCK)) for n in starts)
    size = len(sources.values) + len(targets.values)
    parts = in_order(subwords.encode_sides, blocks, size)
    return counted(parts, "encoding", lambda part: len(part[0]), len(split))


def _write(split: Split, subwords: Tokenizer, folder: Path) -> dict[str, Any]:
    """Write the ids of a split into a new entry; return its facts."""
    return {"pairs": write_sides(folder, _encoded(split, subwords))}
