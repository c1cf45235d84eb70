"""Training pairs of a stream: each source continues into the sentences that follow it.

Nothing marks the end of a sentence in a stream. So the source of a pair is the sentence and up to
`ahead` further tokens of its document, and the target translates the sentence alone: its EOS is the
boundary. A share `told` of the sources stops at the end of the sentence, with EOS; sources that
reach the end of their document also have EOS. So a model can also translate sentences with given
ends.

For policies, a model must also translate prefixes. So `prefixes` adds a pair for each pair, with
both sides truncated to the same random share of their lengths. Its target ends in BOS, which no
translation contains (Iranzo-Sanchez et al. 2024 use a separate mark).
"""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Bool, Int
from numpy.typing import NDArray
from torch import Tensor

from simulmt.attention import Past
from simulmt.data.encoded import EncodedSplit
from simulmt.data.ragged import Ragged
from simulmt.objective.batch import Batch
from simulmt.options import Chance, Natural, limited

_SEED = 1


@limited
@dataclass(frozen=True)
class WindowOptions:
    """What the training pairs of documents look like.

    Attributes:
        ahead: The most tokens of the following sentences that a source includes.
        told: Share of the sources that end with the sentence and EOS.
        prefixes: True to add a prefix of each of the N pairs, as N further pairs.
        history: The most tokens, on either side, of the pairs before; these have no loss. The
            number of pairs is drawn, so a model also trains with less history or none.
    """

    ahead: Natural = 30
    told: Chance = 0.5
    prefixes: bool = False
    history: Natural = 0


class Windows:
    """The pairs of documents, each with what follows its source.

    Args:
        pairs: the pairs, sentence by sentence.
        documents: the places of the pairs of each document; together all pairs, in their order.
        options: what they look like.
    """

    def __init__(
        self, pairs: EncodedSplit, documents: Collection[range], options: WindowOptions
    ) -> None:
        self._pairs, self._pad = pairs, pairs.vocabulary.pad
        ends = pairs.sources.lengths.astype(np.int64) - 1
        self._sizes = np.stack([ends, pairs.targets.lengths], 1)
        """The numbers of tokens of both sides, the EOS of the source left out."""
        starts, stops = np.concatenate([[(d.start, d.stop)] * len(d) for d in documents]).T
        passed = ends.cumsum()
        rest = passed[stops - 1] - passed
        rng = np.random.default_rng(_SEED)
        told_end = rng.random(len(pairs)) < options.told
        self._ahead = np.where(told_end, 0, np.minimum(rest, options.ahead))
        self._finished = told_end | (rest <= options.ahead)
        share = rng.random((len(pairs) * options.prefixes, 1))
        self._cut = np.maximum(share * (self._sizes[: len(share)] - [0, 1]), [1, 0]).astype(int)
        """The numbers of tokens of the prefixes of both sides."""
        self._source_ends = np.concatenate([self._sizes, self._cut])[:, 0]
        self._past_from = np.arange(len(pairs))
        if options.history:
            self._past_from -= [*self._numbers_before(starts, options.history, rng)]
        """The first of the pairs before each pair that it sees."""
        self._has_past = bool((self._past_from < np.arange(len(pairs))).any())

    def __len__(self) -> int:
        return len(self._pairs) + len(self._cut)

    @property
    def lengths(self) -> Int[Tensor, "N 2"]:
        """The numbers of tokens of source and target, their past and EOS included."""
        whole = self._sizes + np.stack([self._ahead + self._finished, 0 * self._ahead], 1)
        lengths = np.concatenate([whole, self._cut + np.array([0, 1])])  # BOS ends a prefix
        sums = np.pad(self._sizes.cumsum(0), ((1, 0), (0, 0)))
        past = sums[:-1] - sums[self._past_from]
        lengths += np.tile(past, (len(lengths) // len(past), 1))
        return torch.from_numpy(lengths.astype(np.int32))

    def batch(self, rows: Sequence[int]) -> Batch:
        """Return the batch of the pairs at the given places."""
        vocabulary, index = self._pairs.vocabulary, np.asarray(rows, np.int64) % len(self._pairs)
        sources, targets = zip(*map(self._pair, rows), strict=True)
        left, right = (Ragged.of(side, vocabulary.dtype) for side in (sources, targets))
        windows = EncodedSplit(left, right, vocabulary)
        ends = self._source_ends[[*rows]]
        past = None
        if self._has_past:
            past = Past(*self._past(index, source=True), *self._past(index, source=False))
        return windows.batch(range(len(rows)))._replace(
            index=torch.from_numpy(index), source_end=torch.from_numpy(ends), past=past
        )

    def _numbers_before(
        self, starts: NDArray[np.int64], history: int, rng: np.random.Generator
    ) -> Iterator[int]:
        """Draw the number of pairs before each pair, up to `history` tokens on either side."""
        sums = np.pad(self._sizes.cumsum(0), ((1, 0), (0, 0))).T
        first = np.maximum.reduce([starts, *(np.searchsorted(s, s[:-1] - history) for s in sums)])
        for count in np.arange(len(starts)) - first:
            yield int(rng.integers(count + 1))

    def _past(
        self, index: NDArray[np.int64], source: bool
    ) -> tuple[Int[Tensor, "B P"], Bool[Tensor, "B P"]]:
        """One side of the pairs before each of B pairs, padded on the left."""
        rows, end = (self._pairs.sources, -1) if source else (self._pairs.targets, None)
        found = [
            [token for n in range(self._past_from[row], row) for token in rows[n][:end]][::-1]
            for row in index
        ]
        mirrored = Ragged.of(found, np.int64).padded(np.arange(len(index)), self._pad)
        tokens, mask = (torch.from_numpy(side[:, ::-1].copy()) for side in mirrored)
        return tokens, mask

    def _pair(self, row: int) -> tuple[list[int], list[int]]:
        """The tokens of a source and of its target."""
        pairs, prefix = self._pairs, row - len(self._pairs)
        if prefix < 0:
            return self._source(row), pairs.targets[row].tolist()
        source, target = self._cut[prefix]
        written = pairs.targets[prefix][:target].tolist()
        return pairs.sources[prefix][:source].tolist(), [*written, pairs.vocabulary.bos]

    def _source(self, row: int) -> list[int]:
        """The tokens of a source, and those that follow it."""
        eos = [self._pairs.vocabulary.eos] * bool(self._finished[row])
        length, tokens = int(self._sizes[row, 0] + self._ahead[row]), list[int]()
        while len(tokens) < length:
            tokens += self._pairs.sources[row][:-1].tolist()
            row += 1
        return [*tokens[:length], *eos]
