"""A pane of a stream: the model ends its sentences, and ended ones leave nothing behind."""

from simulmt.live.stream import StreamTranslator
from simulmt.serve.messages import PaneStep, SentenceEnd, Setting, Written


class StreamPane:
    """What one translator has shown of the open sentence of a stream.

    Args:
        setting: what the pane shows.
        translator: translates for this pane alone.

    Attributes:
        source: The source words of the open sentence.
        words: Its target words.
        delays: How many of its source words had been read when each target word was written.
        ended: The number, source and translation of the sentences that ended with the last word.
    """

    failed = False

    def __init__(self, setting: Setting, translator: StreamTranslator) -> None:
        self.setting, self.translator = setting, translator
        self.reset()

    def reset(self) -> None:
        """Begin another stream."""
        self.translator.reset()
        self.source, self.words, self.delays = list[str](), list[str](), list[int]()
        self.ended, self._sentence, self._broken = list[tuple[int, str, str]](), 1, False
        self._begin = self._start = 0  # words before the sentence, and before the translator's own

    def ready(self) -> StreamTranslator:
        """Return the translator; after a failure, its stream begins again."""
        if self._broken:
            self.translator.reset()
            self._broken = False
        return self.translator

    def follow(self, ended: bool) -> PaneStep:
        """Return the words that are new, and the sentences that have ended."""
        kept, new, ends = len(self.words), list[Written](), list[SentenceEnd]()
        self.ended = []
        for event in self.translator.decided():
            if event.action == "WRITE":
                delay = self._start + event.read
                heads = tuple(place and self._start + place for place in event.heads)
                new.append(Written(event.word, delay, heads))
                self.words.append(event.word)
                self.delays.append(delay - self._begin)
            else:
                ends.append(self._end(event.length, len(new)))
        return PaneStep(kept, tuple(new), ends=tuple(ends))

    def fail(self) -> PaneStep:
        """End the sentence as it is; the next word begins another one."""
        kept, self.ended = len(self.words), []
        ends = (self._end(len(self.source), 0),) if self.source else ()
        self._start, self._broken = self._begin, True
        return PaneStep(kept, failed=True, ends=ends)

    def _end(self, length: int, written: int) -> SentenceEnd:
        end = SentenceEnd(self._sentence, written, length)
        self.ended.append((end.sentence, " ".join(self.source[:length]), " ".join(self.words)))
        self.source, self.words, self.delays = self.source[length:], [], []
        self._begin, self._sentence = self._begin + length, self._sentence + 1
        return end
