"""Training pairs of a stream: each source goes on into the sentences that follow it.

Nobody marks the end of a sentence in a stream. So the source of a pair is the sentence and the next
`ahead` tokens of its document, and the target is the translation of the sentence alone: its EOS is
the boundary. A share `told` of the sources ends with the sentence and EOS, as the last ones of
documents do. So a model also translates sentences whose end it is told.
"""

from collections.abc import Iterable, Sequence

import numpy as np
import torch
from jaxtyping import Int
from torch import Tensor

from simulmt.data.encoded import EncodedSplit
from simulmt.data.ragged import Ragged
from simulmt.objective.batch import Batch

_SEED = 1


class Windows:
    """The pairs of documents, each with what follows its source.

    Args:
        pairs: the pairs, sentence by sentence.
        documents: the places of the pairs of each document; together all pairs, in their order.
        ahead: the most tokens of the following sentences that a source goes on with.
        told: share of the sources that end with the sentence and EOS.
    """

    def __init__(
        self, pairs: EncodedSplit, documents: Iterable[range], ahead: int, told: float
    ) -> None:
        self._pairs = pairs
        self._ends = pairs.sources.lengths.astype(np.int64) - 1  # without EOS
        stops = [np.full(len(places), places.stop) for places in documents]
        passed = np.cumsum(self._ends)
        rest = passed[np.concatenate(stops) - 1] - passed
        told_end = np.random.default_rng(_SEED).random(len(pairs)) < told
        self._ahead = np.where(told_end, 0, np.minimum(rest, ahead))
        self._finished = told_end | (rest <= ahead)

    def __len__(self) -> int:
        return len(self._pairs)

    @property
    def lengths(self) -> Int[Tensor, "N 2"]:
        """The numbers of tokens of source and target, EOS included where there is one."""
        source = torch.from_numpy(self._ends + self._ahead + self._finished)
        return torch.stack([source.int(), self._pairs.lengths[:, 1]], 1)

    def batch(self, rows: Sequence[int]) -> Batch:
        """Return the batch of the pairs at the given places."""
        vocabulary, index = self._pairs.vocabulary, np.asarray(rows, np.int64)
        sources = Ragged.of(map(self._source, rows), vocabulary.dtype)
        source, mask = sources.padded(np.arange(len(rows)), vocabulary.pad)
        return self._pairs.batch(rows)._replace(
            source=torch.from_numpy(source),
            source_mask=torch.from_numpy(mask),
            source_end=torch.from_numpy(self._ends[index]),
        )

    def _source(self, row: int) -> list[int]:
        """The tokens of a source, and those that follow it."""
        eos = [self._pairs.vocabulary.eos] * bool(self._finished[row])
        length, tokens = int(self._ends[row] + self._ahead[row]), list[int]()
        while len(tokens) < length:
            tokens += self._pairs.sources[row][:-1].tolist()
            row += 1
        return [*tokens[:length], *eos]
