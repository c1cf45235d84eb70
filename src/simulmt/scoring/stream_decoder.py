"""Decodes documents, as streams or sentence by sentence, into what their log holds."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import NamedTuple

import torch

from simulmt.data.corpus import Split
from simulmt.data.tokenizer import Tokenizer
from simulmt.decoding.document import Cut, DocumentStream, Segment
from simulmt.decoding.instance import Instance
from simulmt.decoding.policy import Policy
from simulmt.decoding.stream_instance import Boundary, StreamInstance
from simulmt.decoding.writing import WORDS, Writing, as_written, unspaced
from simulmt.models.model import Model
from simulmt.scoring import reference_document as reference


@dataclass(frozen=True)
class StreamDecoder:
    """Decodes the documents of a split as streams.

    Args:
        split: the sentences of documents; their ends are not told.
        subwords: the model's vocabulary.
        cut: says where a segment ends in the source.
        policy: commits words of drafts; None for the model's own decision.
        together: the number of documents that are read together.
    """

    split: Split
    subwords: Tokenizer
    cut: Cut
    policy: Policy | None = None
    together: int = 64

    @torch.inference_mode()
    def __call__(
        self,
        model: Model,
        watch: Callable[[range], Iterable[int]] = iter,
    ) -> list[StreamInstance]:
        """The documents, in their order.

        Args:
            model: the translation model, on any device.
            watch: wraps a count of the words, to show the progress.
        """
        texts = {name: source_of(self.split, name) for name in self.split.documents}
        end = [model.vocabulary.eos]
        words = {n: [*map(self.subwords.encode, t.split()), end] for n, t in texts.items()}
        progress = iter(watch(range(sum(map(len, words.values())))))
        names = sorted(words, key=lambda name: len(words[name]))
        found = dict[str, StreamInstance]()
        for first in range(0, len(names), self.together):
            batch = names[first : first + self.together]
            streams = [DocumentStream(model, self.cut, self.policy) for _ in batch]
            counted = [
                (word for word, _ in zip(words[name], progress, strict=False)) for name in batch
            ]
            DocumentStream.read_on(streams, counted)
            for name, stream in zip(batch, streams, strict=True):
                found[name] = self._written(name, texts[name], stream.ended())
        return [found[name] for name in self.split.documents]

    def _written(self, name: str, text: str, segments: Iterable[Segment]) -> StreamInstance:
        parts = []
        for own, written, read in segments:
            ends = self.subwords.target_words(written.tokens).ends
            words = self.subwords.words(written.tokens)
            delays = [written.delays[end - 1] for end in ends]
            parts.append(Part(words, delays, len(own), read))
        return document(name, text, parts, self.subwords.writing)


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
