"""A stream whose sentence ends nobody marks: the model writes them itself.

A segment is translated as any sentence, but its source goes on. Once the model writes EOS, the
segment has ended. A `Cut` says where in the source; the words after the cut begin the next segment,
and they are read again, which takes no time in the stream. So memory and time for a word depend on
the length of segments, and not on what has gone by.
"""

from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeAlias, cast

from simulmt.decoding.by_policy import PolicyStream
from simulmt.decoding.hypothesis import Hypothesis
from simulmt.decoding.incremental import SentenceStream
from simulmt.models.model import Model

SegmentStream: TypeAlias = SentenceStream | PolicyStream
Words: TypeAlias = Sequence[Sequence[int]]
Cut: TypeAlias = Callable[[Model, Words, Hypothesis], int]
"""The number of the source words read that belong to a segment, from what was written for it."""


class Segment(NamedTuple):
    """A segment that has ended.

    Attributes:
        words: The subwords of each source word.
        written: The translation; its delays count source words of the whole stream.
        read: The words of the whole stream that had been read when it ended.
    """

    words: Words
    written: Hypothesis
    read: int


class DocumentStream:
    """A document, translated while its words arrive.

    Args:
        model: In evaluation mode.
        begin: Begins the translation of a segment.
        cut: Says where a segment ends in the source.
    """

    def __init__(self, model: Model, begin: Callable[[], SegmentStream], cut: Cut) -> None:
        self.model, self.begin, self.cut = model, begin, cut
        self.segments = list[Segment]()
        self.read = 0
        """The words that have been read, of the whole stream."""
        self._open()

    def _open(self) -> None:
        self.stream, self.words, self.delays = self.begin(), list[Sequence[int]](), list[int]()

    def read_word(self, word: Sequence[int]) -> None:
        """Read the subwords of a word; EOS alone at the end of the stream."""
        self.read_words([self], [word])

    @staticmethod
    def read_words(streams: Sequence["DocumentStream"], words: Words) -> None:
        """Let streams of one model and one policy read a word each, as if each were alone."""
        queues = [deque([word] if word else []) for word in words]
        for one, queue in zip(streams, queues, strict=True):
            one.read += bool(queue) and not one._is_end(queue[0])
        while any(queues):
            reading = [(one, queue) for one, queue in zip(streams, queues, strict=True) if queue]
            taken = [queue.popleft() for _, queue in reading]
            inner = [one.stream for one, _ in reading]
            cast("Any", inner[0]).read_words(inner, taken)  # all are of one kind
            for (one, queue), word in zip(reading, taken, strict=True):
                queue.extendleft(reversed(one._after(word)))

    def _after(self, word: Sequence[int]) -> list[Sequence[int]]:
        """Keep what was read and written; return the words to read again, if a segment ended."""
        end = self._is_end(word)
        self.words += [] if end else [word]
        written = self.stream.written
        self.delays += [self.read] * (len(written.tokens) - len(self.delays))
        if not self.stream.done or not self.words:
            return []
        length = min(max(self.cut(self.model, self.words, written), 1), len(self.words))
        own, rest = self.words[:length], self.words[length:]
        self.segments.append(Segment(own, written._replace(delays=self.delays), self.read))
        self._open()
        return [*rest, word] if end and rest else rest

    def _is_end(self, word: Sequence[int]) -> bool:
        return word[-1] == self.model.vocabulary.eos
