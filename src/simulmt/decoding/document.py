"""A stream without marked sentence ends: the model marks them itself, by writing EOS.

A segment is translated like any sentence, but its source continues. Once the model writes EOS,
the segment has ended. A `Cut` finds where it ends in the source. The words after the cut begin
the next segment; they are read again, which takes no time in the stream. So memory and time for
a word depend on the length of segments, and not on the length of the stream.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple, TypeAlias, cast

from simulmt.attention import Past
from simulmt.decoding.by_policy import begin_sentence
from simulmt.decoding.history import Before, held, past_of
from simulmt.decoding.hypothesis import Hypothesis
from simulmt.decoding.policy import Policy
from simulmt.models.model import Model

Words: TypeAlias = Sequence[Sequence[int]]
Cut: TypeAlias = Callable[[Model, Words, Hypothesis, Past | None], int]
"""The number of the source words read that belong to a segment, from what was written for it, and
from what precedes it."""
LONGEST = 100
"""The most source words of a segment; one that has not ended by then is ended."""


class TranslatedSegment(NamedTuple):
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
        model: In evaluation mode; it writes before it has read the whole source.
        cut: Says where a segment ends in the source.
        policy: Commits words of drafts, and their EOS; None for the model's own decision.
    """

    def __init__(self, model: Model, cut: Cut, policy: Policy | None = None) -> None:
        self.model, self.cut, self.policy = model, cut, policy
        self._ended = list[TranslatedSegment]()
        self._before: Sequence[Before] = []
        self._again = deque[Sequence[int]]()
        self.read = 0
        """The words that have been read, of the whole stream."""
        self._open()

    def _open(self) -> None:
        self.past = past_of(self.model, self._before)
        self.stream = begin_sentence(self.model, self.policy, told=False, past=self.past)
        self.words, self.delays = list[Sequence[int]](), list[int]()

    def read_word(self, word: Sequence[int]) -> None:
        """Read the subwords of a word; EOS alone at the end of the stream."""
        self.read_words([self], [word])

    @staticmethod
    def read_words(streams: Sequence["DocumentStream"], words: Words) -> None:
        """Let streams of one model and policy read a word each, as if each were alone."""
        DocumentStream.read_on(streams, [[word] if word else [] for word in words])

    @staticmethod
    def read_on(
        streams: Sequence["DocumentStream"], words: Sequence[Iterable[Sequence[int]]]
    ) -> None:
        """Let streams of one model and policy read all their words, as if each were alone.

        Each goes at its own pace: one that reads words after a cut again falls behind the others.
        """
        reading = [(one, iter(own)) for one, own in zip(streams, words, strict=True)]
        while reading:
            found = [(one, own, one._next(own)) for one, own in reading]
            turn = [(one, own, word) for one, own, word in found if word]
            if turn:
                together = [one.stream for one, _, _ in turn]
                taken = [word for _, _, word in turn]
                cast("Any", together[0]).read_words(together, taken)  # all are of one kind
            for one, _, word in turn:
                one._again.extendleft(reversed(one._after(word)))
            reading = [(one, own) for one, own, _ in turn]

    def ended(self) -> list[TranslatedSegment]:
        """The segments that have ended since the last call."""
        ended, self._ended = self._ended, []
        return ended

    def _next(self, arriving: Iterator[Sequence[int]]) -> Sequence[int]:
        """The next word: of those to read again, or a new one; empty if there is none."""
        if self._again:
            return self._again.popleft()
        word = next(arriving, ())
        self.read += bool(word) and not self._is_end(word)
        return word

    def _after(self, word: Sequence[int]) -> list[Sequence[int]]:
        """Keep what was read and written; return the words to read again, if a segment ended."""
        end = self._is_end(word)
        self.words += [] if end else [word]
        written = self.stream.written
        self.delays += [self.read] * (len(written.tokens) - len(self.delays))
        if not self.words or not (self.stream.done or len(self.words) == LONGEST):
            return []
        least = 1 if self.stream.done else LONGEST // 2  # or most words would be read many times
        read = [*self.words, word] if end else self.words
        length = self.cut(self.model, read, written, self.past)
        length = min(max(length, least), len(self.words))
        own, rest = self.words[:length], self.words[length:]
        self._ended.append(TranslatedSegment(own, written._replace(delays=self.delays), self.read))
        before = Before([token for word in own for token in word], written.tokens)
        self._before = held(self.model, [*self._before, before])
        self._open()
        return [*rest, word] if end and rest else rest

    def _is_end(self, word: Sequence[int]) -> bool:
        return word[-1] == self.model.vocabulary.eos
