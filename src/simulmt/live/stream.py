"""Translates a stream without sentence ends word by word; the model ends the sentences."""

from collections.abc import Iterable, Iterator

from simulmt.data.tokenizer import Tokenizer
from simulmt.decoding.cuts import cut_of
from simulmt.decoding.document import Cut, DocumentStream
from simulmt.decoding.hypothesis import Hypothesis
from simulmt.decoding.policy import Policy
from simulmt.decoding.search import GREEDY
from simulmt.decoding.word_map import WordMap
from simulmt.decoding.writing import words_of
from simulmt.live.interpreter import END, Event
from simulmt.live.translator import Translator
from simulmt.models.model import Model


class StreamTranslator:
    """Translates one stream after another, with the words, delays and cuts of `decode_streams`.

    Args:
        model: in evaluation mode; it writes before it has read the whole source.
        subwords: the model's vocabulary.
        cut: says where a sentence ends in the source.
        policy: commits words of drafts; None for the model's own decision.
    """

    full = False
    """False: a stream has no length limit."""
    search = GREEDY
    """How drafts are made."""

    def __init__(
        self, model: Model, subwords: Tokenizer, cut: Cut, policy: Policy | None = None
    ) -> None:
        self.model, self.subwords, self.cut, self.policy = model, subwords, cut, policy
        self.reset()

    @classmethod
    def of(cls, translator: Translator, cut: str) -> "StreamTranslator":
        """Return a translator of streams with the model and the policy of one of sentences.

        Args:
            translator: of a model that was trained on documents.
            cut: `pointer`, `likelihood` or `reading` (docs/streams.md).

        Raises:
            UserError: as for `cut_of`.
        """
        model, policy = translator.model, translator.policy
        return cls(model, translator.subwords, cut_of(cut, model, policy), policy)

    def reset(self) -> None:
        """Begin another stream."""
        self.stream = DocumentStream(self.model, self.cut, self.policy)
        self.sentence = 1
        """The number of the sentence that is open."""
        self._told = 0
        self._begin, self._lengths, self._over = 0, list[int](), False

    def read(self, text: str | None) -> list[str]:
        """Read words, or None for the end; return the words that are now decided.

        A word is decided once the next word begins, or the sentence ends.
        """
        return [event.word for event in self.events(text) if event.action == "WRITE"]

    def events(self, text: str | None) -> Iterator[Event]:
        """Read words, or None for the end; yield the words that are now decided, and the ends.

        `Event.read` of a written word is its delay: the words of the stream that had been read when
        its last subword was written.
        """
        for part in self.arriving(text):
            self.stream.read_word(part)
        yield from self.decided()

    def arriving(self, text: str | None) -> list[list[int]]:
        """What the stream reads next: the subwords of each word; EOS for None.

        A word without subwords is read as UNK, since it counts in the stream.
        """
        self._over = text is None
        if text is None:
            parts = [[self.model.vocabulary.eos]]
        else:
            apart = words_of(text, self.subwords.writing.source) or [text]
            parts = [self.subwords.encode(one) or [self.model.vocabulary.unk] for one in apart]
        self._lengths += map(len, parts)
        return parts

    def decided(self) -> Iterator[Event]:
        """The words that have become complete since the last call, and the ends of sentences."""
        for segment in self.stream.ended():
            yield from self._written(segment.written)
            yield Event("END", self.sentence, read=segment.read, length=len(segment.words))
            self.sentence, self._told = self.sentence + 1, 0
            self._begin += len(segment.words)
            del self._lengths[: len(segment.words)]
        if not self._over:
            written = self.stream.stream.written._replace(delays=self.stream.delays)
            is_open = self.stream.stream.in_word and not self.subwords.writing.target
            yield from self._written(written, -1 if is_open else None)

    def _written(self, own: Hypothesis, until: int | None = None) -> Iterator[Event]:
        words = self.subwords.words(own.tokens)
        ends = self.subwords.target_words(own.tokens).ends
        source = WordMap.of_lengths(self._lengths, self._begin + 1)  # EOS counts as a word
        streams = not self.model.mechanism.offline
        for word, end in [*zip(words, ends, strict=True)][self._told : until]:
            heads = tuple(map(source.at, own.positions[end - 1])) if streams else ()
            yield Event("WRITE", self.sentence, word, own.delays[end - 1], heads=heads)
            self._told += 1

    @property
    def undecided(self) -> list[str]:
        """The word that is written in part, if there is one."""
        return self.subwords.words(self.stream.stream.written.tokens)[self._told :]


def interpret_stream(translator: StreamTranslator, words: Iterable[str]) -> Iterator[Event]:
    """Translate a stream to its end, and yield each event at once.

    Args:
        translator: reads the words, as one stream.
        words: source words; `END` has no effect.
    """
    translator.reset()
    for word in words:
        if word != END:
            yield Event("READ", translator.sentence, word, translator.stream.read + 1)
            yield from translator.events(word)
    yield from translator.events(None)
