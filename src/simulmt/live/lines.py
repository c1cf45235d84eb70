"""Translations of plain lines in batches."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from simulmt.data.batches import ordered_batches
from simulmt.data.corpus import Split
from simulmt.data.encoded import EncodedSplit
from simulmt.data.tokenizer import Tokenizer
from simulmt.decoding.decoder import decoder
from simulmt.decoding.policy import Policy
from simulmt.decoding.search import Search
from simulmt.models.model import Model
from simulmt.scoring.split_decoder import hypotheses


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
        """Return a translation of each line, in order; empty for an empty or too long line.

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
        for row, found in hypotheses(self.model, encoded, self.watch([*kept]), lambda _: decode):
            translations[places[row]] = self.subwords.decode(found.tokens)
        return translations
