"""Decodes sentences with given ends, each of which sees what precedes it."""

from collections.abc import Iterable, Sequence
from itertools import chain, zip_longest
from typing import Any

from simulmt.decoding.by_policy import begin_sentence
from simulmt.decoding.history import Before, held, past_of
from simulmt.decoding.instance import Instance
from simulmt.models.model import Model
from simulmt.scoring.split_decoder import SplitDecoder, write_down
from simulmt.system.console import watch

_TOGETHER = 64


def decode_after(
    model: Model, decoder: SplitDecoder, context: Sequence[Sequence[Before]] | None = None
) -> list[Instance]:
    """Translate a split, each sentence after what precedes it, which is not scored or counted.

    Args:
        model: the translation model, on any device.
        decoder: the sentences, without `context` those of documents, and the policy; the model's
            own decision is greedy.
        context: what precedes each sentence; None for the sentences before it in its document, with
            the translations that the model has written.
    """
    split, subwords, how = decoder.split, decoder.subwords, (decoder.policy, decoder.search)
    turns: Iterable[Iterable[int | None]] = [range(len(split))]
    before = [[*parts] for parts in context or ()]
    if context is None:  # the sentences of a document share a list, which grows
        turns = zip_longest(*split.documents.values())
        before = [own for one in split.documents.values() for own in [list[Before]()] * len(one)]
    rows = [[row for row in turn if row is not None] for turn in turns]
    size, found, words_of = _TOGETHER, dict[int, Instance](), subwords.vocabulary.words
    for batch in watch([turn[n : n + size] for turn in rows for n in range(0, len(turn), size)]):
        words = [[*words_of(subwords.encode(split.sources[row]))] for row in batch]
        pasts = [past_of(model, held(model, before[row])) for row in batch]
        streams: list[Any] = [begin_sentence(model, *how, past=past) for past in pasts]
        for arriving in zip_longest(
            *([*own, [model.vocabulary.eos]] for own in words), fillvalue=[]
        ):
            streams[0].read_words(streams, arriving)
        for row, own, stream in zip(batch, words, streams, strict=True):
            before[row].append(Before([*chain.from_iterable(own)], stream.written.tokens))
            found[row] = write_down(row, split, stream.written, subwords)
    return [found[row] for row in range(len(split))]
