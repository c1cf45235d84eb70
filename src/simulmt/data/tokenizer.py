"""Text to ids and back, and the words that ids form, for every kind of subwords."""

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property, lru_cache
from itertools import accumulate
from typing import Any, TypeAlias

import numpy as np
import sentencepiece

from simulmt.data.lines import lines_of
from simulmt.data.ragged import Ragged, bounds
from simulmt.data.text import normalise
from simulmt.decoding.word_map import WordMap
from simulmt.decoding.writing import WORDS, Writing, as_written, words_of
from simulmt.errors import UserError
from simulmt.models.vocabulary import Vocabulary

UNKNOWN = "\u2047"  # ⁇, the text that the unknown subword decodes to
SPACE = "\u2581"
"""SentencePiece's sign for a space."""
ENCODER = f"sentencepiece {sentencepiece.__version__}"
"""The encoder of text, as a part of the keys of the cache."""
MOST_SUBWORDS = 1_000_000
_REMEMBERED = 1 << 18  # words, which take some 50 MiB
WordIds: TypeAlias = Callable[[str], bytes]
"""The ids of a word, packed."""


class Tokenizer:
    """Subwords of both languages, each a part of one word.

    A word is a maximal run of characters other than white space in the decoded text; on a side
    that is written in characters, it is one of these.

    Args:
        files: the content of the files that hold it, by their names.
        vocabulary: the size, the special ids and the beginnings of words.
        spelled: every subword as SentencePiece spells it.
        surfaces: the text of every subword: a leading space if it begins a word, then a part of
            one word.
        encoders: the ids of a word of the source and of the target language.
        writing: what a word is, on either side.
    """

    def __init__(
        self,
        files: Mapping[str, bytes],
        vocabulary: Vocabulary,
        spelled: Sequence[str],
        surfaces: Sequence[str],
        encoders: tuple[Callable[[str], Sequence[int]], Callable[[str], Sequence[int]]],
        writing: Writing = WORDS,
    ) -> None:
        self.files, self.vocabulary, self.writing = files, vocabulary, writing
        self._spelled, self._surface = spelled, surfaces
        source, target = encoders
        self._source = self._target = _remembering(source, vocabulary.dtype)
        if target is not source:
            keep = _packed if vocabulary.whole else _remembering  # texts hardly ever recur
            self._target = keep(target, vocabulary.dtype)

    def written(self, writing: Writing) -> "Tokenizer":
        """The same subwords of text that is written in another way.

        Raises:
            UserError: these subwords cannot have characters as words.
        """
        make: Callable[..., Tokenizer] = type(self)  # of every kind: files, writing
        return self if writing == self.writing else make(self.files, writing)

    def __reduce__(self) -> tuple[type["Tokenizer"], tuple[Mapping[str, bytes], Writing]]:
        return type(self), (self.files, self.writing)

    @cached_property
    def digest(self) -> str:
        """SHA-256 in hex of the files, and of whether a target text is encoded as a whole."""
        whole = b"whole" * self.vocabulary.whole
        return hashlib.sha256(b"".join((*self.files.values(), whole))).hexdigest()

    def __len__(self) -> int:
        return self.vocabulary.size

    def encode(self, text: str) -> list[int]:
        """Ids of any source text, which is normalised first; no special ids."""
        return self._unpacked(self._source, text, self.writing.source)

    def encode_source(self, text: str) -> list[int]:
        """Ids of a source sentence without EOS, with the ids that open every sentence."""
        return [*self.vocabulary.opening, *self.encode(text)]

    def encode_target(self, text: str) -> list[int]:
        """Ids of any target text, as `encode` returns them for source text."""
        return self._unpacked(self._target, text, self.writing.target)

    def _unpacked(self, ids_of: WordIds, text: str, characters: bool) -> list[int]:
        ids: list[int] = self._rows(ids_of, [normalise(text)], characters)[0][:-1].tolist()
        return ids

    def encode_rows(self, lines: Iterable[str]) -> Ragged:
        """Ids of source lines that are normalised already, as those of a `Split`, ended by EOS."""
        return self._rows(self._source, lines, self.writing.source, self.vocabulary.opening)

    def encode_sides(self, sides: tuple[Ragged, Ragged]) -> tuple[Ragged, Ragged]:
        """The same for lines of both languages in UTF-8, each line ended by LF."""
        source, target = sides
        targets = self._rows(self._target, lines_of(target), self.writing.target)
        return self.encode_rows(lines_of(source)), targets

    def _rows(
        self, ids_of: WordIds, lines: Iterable[str], characters: bool, opening: Sequence[int] = ()
    ) -> Ragged:
        dtype = self.vocabulary.dtype
        start = np.asarray(opening, dtype).tobytes()
        eos = np.asarray([self.vocabulary.eos], dtype).tobytes()
        parts = (self._parts(line, characters) for line in lines)
        rows = [start + b"".join(map(ids_of, words)) + eos for words in parts]
        values = np.frombuffer(b"".join(rows), dtype)
        return Ragged(values, bounds([*map(len, rows)]) // values.itemsize)

    def _parts(self, text: str, characters: bool) -> list[str]:
        """The parts that are encoded by themselves: words, or the text if a piece holds several."""
        whole = characters and self.vocabulary.whole
        return ["".join(text.split())] if whole else words_of(text, characters)

    def pieces(self, ids: Iterable[int]) -> list[str]:
        """The pieces as SentencePiece spells them: U+2581 marks the first piece of a word."""
        return [self._spelled[piece] for piece in ids]

    def words(self, ids: Iterable[int]) -> list[str]:
        """The words of a translation; UNK decodes to ⁇, and PAD, BOS and EOS to nothing."""
        return words_of("".join(self._surface[piece] for piece in ids), self.writing.target)

    def decode(self, ids: Iterable[int]) -> str:
        """The text of a translation as it is written: with single spaces, or without any."""
        return as_written(self.words(ids), self.writing.target)

    def is_blank(self, piece: int) -> bool:
        """True if the piece adds no character to a word: a lone ▁, PAD, BOS or EOS."""
        return not self._surface[piece].strip()

    def source_words(self, text: str) -> WordMap:
        """The words of the text, for every id of `encode_source(text)`."""
        words = self._words(self._source, text, self.writing.source)
        opening = [min(len(words), 1)] * len(self.vocabulary.opening)
        return WordMap((*opening, *words))

    def reference_words(self, text: str) -> WordMap:
        """The words of a reference, for every id of `encode_target(text)`."""
        return self._words(self._target, text, self.writing.target)

    def _words(self, ids_of: WordIds, text: str, characters: bool) -> WordMap:
        words, size = words_of(normalise(text), characters), self.vocabulary.dtype.itemsize
        return WordMap.of_lengths(len(ids_of(word)) // size for word in words)

    def words_touched(self, ids: Iterable[int]) -> WordMap:
        """The words of the subwords of a text, for every subword, by the beginnings of words.

        A lone ▁ belongs to the next word, or to the last word if no other follows. All are 0 if
        there is no word.
        """
        touched: list[int] = []
        word, boundary = 0, True
        for piece in ids:
            boundary = boundary or self._surface[piece].startswith(" ")
            touched.append(word + boundary)
            if boundary and not self.is_blank(piece):
                word, boundary = word + 1, False
        return WordMap(min(index, word) for index in touched)

    def target_words(self, ids: Iterable[int]) -> WordMap:
        """The words of a translation, for every subword.

        If characters are words, a piece may still hold several, for example in Latin script; it
        gets the number of the last one. A lone ▁ gets the number of the next piece with
        characters, or 0 if there is none.
        """
        if not self.writing.target:
            return self.words_touched(ids)
        sizes = [len("".join(self._surface[piece].split())) for piece in ids]
        touched, word = list[int](), 0
        for size, end in reversed([*zip(sizes, accumulate(sizes), strict=True)]):
            word = end if size else word
            touched.append(word)
        return WordMap(reversed(touched))


def _packed(encode: Callable[[str], Sequence[int]], dtype: "np.dtype[Any]") -> WordIds:
    return lambda text: np.asarray(encode(text), dtype).tobytes()


def _remembering(encode: Callable[[str], Sequence[int]], dtype: "np.dtype[Any]") -> WordIds:
    """No piece spans words, so a word is encoded by itself; frequent words are encoded once."""
    return lru_cache(_REMEMBERED)(_packed(encode, dtype))


def open_model(model: bytes, name: str) -> sentencepiece.SentencePieceProcessor:
    """Return the processor of a serialised SentencePiece model; `name` is for the message.

    Raises:
        UserError: the bytes are not such a model.
    """
    processor = sentencepiece.SentencePieceProcessor()
    try:
        processor.LoadFromSerializedProto(model)
    except RuntimeError:
        raise UserError(
            f"{name} ({len(model)} bytes) is not a SentencePiece model: give a .model file"
        ) from None
    return processor


def beginnings(surfaces: Iterable[str], special: Iterable[int]) -> tuple[bool, ...]:
    """Return True for each subword that begins a word, as the special ones do."""
    others = {*special}
    return tuple(text.startswith(" ") or piece in others for piece, text in enumerate(surfaces))
