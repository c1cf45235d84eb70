"""Live sentences that read in one batch, with the words and delays that each gets alone."""

from collections import defaultdict
from collections.abc import Hashable, Sequence
from itertools import zip_longest
from typing import Any, TypeAlias, cast

from simulmt.live.stream import StreamTranslator
from simulmt.live.translator import Translator

LiveTranslator: TypeAlias = Translator | StreamTranslator


def read_together(
    translators: Sequence[Translator], words: Sequence[str | None]
) -> list[list[str]]:
    """Read one word, or the end of its sentence, with each of several translators in one pass.

    Those of one model, policy and search share a batch.

    Args:
        translators: each at any point of its sentence; none of them twice.
        words: one for each; None for the end of the sentence.

    Returns:
        For each, the words that are now decided: what `read` or `finish` gives it alone.
    """
    advance(translators, words)
    return [one.decided() for one in translators]


def advance(translators: Sequence[LiveTranslator], words: Sequence[str | None]) -> None:
    """The same without a result; `decided` of each translator returns what is new."""
    groups = defaultdict[Hashable, list[tuple[LiveTranslator, list[list[int]]]]](list)
    for one, word in zip(translators, words, strict=True):
        groups[id(one.model), one.policy, one.search].append((one, one.arriving(word)))
    for group in groups.values():
        streams, parts = [one.stream for one, _ in group], [own for _, own in group]
        for turn in zip_longest(*parts, fillvalue=()):
            cast("Any", streams[0]).read_words(streams, turn)  # all are of one kind
