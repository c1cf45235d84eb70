"""Translations of plain lines in batches: the one loop that all programs decode with."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TypeAlias

from jaxtyping import Bool, Int
from torch import Tensor

from simulmt.data.batches import ordered_batches
from simulmt.data.corpus import Split
from simulmt.data.encoded import EncodedSplit
from simulmt.data.tokenizer import Tokenizer
from simulmt.decoding.beam import beam_search
from simulmt.decoding.by_policy import decode_by
from simulmt.decoding.greedy import greedy
from simulmt.decoding.hypothesis import Hypothesis
from simulmt.decoding.monotonic_beam import monotonic_beam_search
from simulmt.decoding.policy import Policy
from simulmt.decoding.search import Search
from simulmt.models.model import Model

Decode: TypeAlias = Callable[[Model, Int[Tensor, "B S"], Bool[Tensor, "B S"]], Sequence[Hypothesis]]
"""Translates a batch: token ids, and True for real tokens."""


def decoder(search: Search, policy: Policy | None = None, k: int | None = None) -> Decode:
    """Return what translates a batch.

    Args:
        search: greedy, or beam search for models that read the whole sentence first; with a policy
            the search of the drafts.
        policy: commits words of drafts; None for the model's own decision.
        k: source tokens at the first target token of a monotonic search; None for the usual search.
    """
    if policy is not None:
        return partial(decode_by, policy, search=search)
    if k is not None:
        return partial(monotonic_beam_search, search=search, k=k)
    return greedy if search.beam == 1 else partial(beam_search, search=search)


def hypotheses(
    model: Model, encoded: EncodedSplit, batches: Iterable[list[int]], decode: Decode
) -> Iterator[tuple[int, Hypothesis]]:
    """Yield each sentence of some batches, by its place, with its translation."""
    device = model.begins.device
    for rows in batches:
        batch = encoded.batch(rows)
        found = decode(model, batch.source.to(device), batch.source_mask.to(device))
        yield from zip(rows, found, strict=True)


@dataclass(frozen=True)
class LineTranslator:
    """Translates some lines at a time.

    Args:
        model: in evaluation mode.
        subwords: the vocabulary of the model.
        search: as for `decoder`.
        tokens: largest number of source tokens in a batch, padding and all hypotheses included.
        longest: the most tokens of a sentence, EOS included; the translation of a longer sentence
            is empty.
        policy: as for `decoder`.
        k: as for `decoder`.
        watch: wraps the loop over batches, to show its progress.
    """

    model: Model
    subwords: Tokenizer
    search: Search
    tokens: int
    longest: int
    policy: Policy | None = None
    k: int | None = None
    watch: Callable[[list[list[int]]], Iterable[list[int]]] = iter

    def __call__(self, lines: Sequence[str]) -> list[str]:
        """Return a translation of each line, in their order; of an empty line an empty one.

        Args:
            lines: sentences, normalised.
        """
        translations = [""] * len(lines)
        if not (places := [place for place, line in enumerate(lines) if line]):
            return translations
        split = Split([lines[place] for place in places], [""] * len(places))
        encoded = EncodedSplit.encode(split, self.subwords)
        batches = ordered_batches(encoded.lengths, max(1, self.tokens // self.search.beam))
        short = encoded.lengths[:, 0] <= self.longest
        kept = filter(None, ([row for row in rows if short[row]] for rows in batches))
        decode = decoder(self.search, self.policy, self.k)
        for row, found in hypotheses(self.model, encoded, self.watch([*kept]), decode):
            translations[places[row]] = self.subwords.decode(found.tokens)
        return translations
