"""Decodes documents, as streams or sentence by sentence, into what their log holds."""

from collections.abc import Iterable, Sequence
from itertools import accumulate
from typing import NamedTuple

import torch

from simulmt.data.corpus import Split
from simulmt.data.tokenizer import Tokenizer
from simulmt.decoding.document import Cut, DocumentStream, TranslatedSegment
from simulmt.decoding.instance import Instance
from simulmt.decoding.stream_instance import Boundary, StreamInstance
from simulmt.decoding.writing import WORDS, Writing, as_written, unspaced
from simulmt.models.model import Model
from simulmt.scoring import reference_document as reference
from simulmt.scoring.split_decoder import SplitDecoder
from simulmt.system.console import watch

_TOGETHER = 64  # documents


@torch.inference_mode()
def decode_streams(model: Model, decoder: SplitDecoder, cut: Cut) -> list[StreamInstance]:
    """Decode the documents of a split as streams.

    Args:
        model: the translation model, on any device.
        decoder: the sentences of documents, whose ends are not told, and the policy.
        cut: says where a segment ends in the source.

    Returns:
        The documents, in their order.
    """
    split, subwords = decoder.split, decoder.subwords
    unk, eos, words = [model.vocabulary.unk], [model.vocabulary.eos], dict[str, list[list[int]]]()
    for name in split.documents:
        text = source_of(split, name).split()  # a word without subwords counts, too
        words[name] = [*(subwords.encode(word) or unk for word in text), eos]
    progress = iter(watch(range(sum(map(len, words.values())))))
    streams = {name: DocumentStream(model, cut, decoder.policy) for name in words}
    names = sorted(words, key=lambda name: len(words[name]))
    for first in range(0, len(names), _TOGETHER):
        batch = names[first : first + _TOGETHER]
        counted = [(word for word, _ in zip(words[name], progress, strict=False)) for name in batch]
        DocumentStream.read_on([streams[name] for name in batch], counted)
    return [_written(name, split, streams[name].ended(), subwords) for name in split.documents]


def _written(
    name: str, split: Split, segments: Iterable[TranslatedSegment], subwords: Tokenizer
) -> StreamInstance:
    parts = []
    for own, written, read in segments:
        ends = subwords.target_words(written.tokens).ends
        delays = [written.delays[end - 1] for end in ends]
        parts.append(Part(subwords.words(written.tokens), delays, len(own), read))
    return document(name, source_of(split, name), parts, subwords.writing)


class Part(NamedTuple):
    """A translated segment.

    Attributes:
        words: The words written.
        delays: Their delays, in source words of the whole document.
        length: The source words of the segment.
        read: The source words of the whole document read when it ended.
    """

    words: Sequence[str]
    delays: Sequence[float]
    length: int
    read: int


def document(
    name: str, text: str, parts: Sequence[Part], writing: Writing = WORDS
) -> StreamInstance:
    """Return a document from its translated segments; `text` is its source, in words."""
    written = accumulate(len(part.words) for part in parts)
    splits = accumulate(part.length for part in parts)
    reads = (part.read for part in parts)
    return StreamInstance(
        source=name,
        prediction=as_written((word for part in parts for word in part.words), writing.target),
        delays=tuple(delay for part in parts for delay in part.delays),
        boundaries=tuple(map(Boundary, written, splits, reads)),
        text=unspaced(text, writing.source),
    )


def source_of(split: Split, name: str) -> str:
    """The words of a document of a split."""
    return " ".join(split.sources[place] for place in split.documents[name])


def joined(split: Split, instances: Sequence[Instance]) -> list[StreamInstance]:
    """The documents of a split whose sentences were translated one by one.

    Args:
        split: sentences of documents; all of their ends are told.
        instances: the sentences, in their order.
    """
    documents = []
    for name, places in split.documents.items():
        parts, read = list[Part](), 0
        for instance in (instances[place] for place in places):
            length, delays = instance.source_length, [read + delay for delay in instance.delays]
            read += length
            parts.append(Part(instance.prediction.split(), delays, length, read))
        documents.append(document(name, source_of(split, name), parts, instances[0].writing))
    return documents


def segments_of(split: Split, name: str) -> list[reference.Segment]:
    """The references of a document of a split, and their places in the source."""
    places = split.documents[name]
    lengths = [len(split.sources[place].split()) for place in places]
    return reference.in_turn([split.targets[place] for place in places], lengths)
