"""The SentencePiece model of both languages, and the words that its pieces form."""

import hashlib
from collections.abc import Iterable
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Literal, TypeAlias

import numpy as np
import sentencepiece

from simulmt.data.lines import lines_of
from simulmt.data.ragged import Ragged, bounds
from simulmt.data.subword_training import train_model, train_or_reuse
from simulmt.data.text import normalise
from simulmt.errors import UserError
from simulmt.options import Limit
from simulmt.run_directory import replacing
from simulmt.untrusted import read_bytes
from simulmt.vocabulary import Vocabulary

UNKNOWN = "\u2047"  # ⁇, the text that the unknown subword decodes to
_SPECIAL = Vocabulary(size=4)
_IDS = {f"{name}_id": getattr(_SPECIAL, name) for name in ("pad", "unk", "bos", "eos")}
# One thread gives the same bytes every time; level 3 logs fatal errors only.
_RUN = {"num_threads": 1, "minloglevel": 3, "max_sentence_length": 1 << 16}
_FIXED = {**_IDS, **_RUN, "unk_surface": UNKNOWN, "normalization_rule_name": "identity"}
_PROBE = "\u2581A\u2581\u00b4\u2581\u00bd"  # A ´ ½: SentencePiece's normalisers change this text
_REMEMBERED = 1 << 18  # words, which take some 40 MiB
ENCODER = f"sentencepiece {sentencepiece.__version__}"
"""What encodes text, for the keys of what is kept."""
MOST_SUBWORDS = 1_000_000
_MOST_BYTES = 100 * MOST_SUBWORDS  # of a model; a piece takes about 20
_SIZES = Limit(f"from 5 to {MOST_SUBWORDS:,}: 4 are special", lambda n: 5 <= n <= MOST_SUBWORDS)
Size: TypeAlias = Annotated[int, _SIZES]
Coverage: TypeAlias = Annotated[float, Limit("0.98 to 1", lambda share: 0.98 <= share <= 1)]


class Subwords:
    """A SentencePiece model whose every piece is a part of one word.

    A word is a maximal run of characters other than white space in the decoded text. For text
    of known characters `decode(encode(text)) == normalise(text)`; an unknown character decodes to
    ⁇.
    """

    def __init__(self, model: bytes) -> None:
        """Read a serialised model.

        Raises:
            UserError: the bytes are no SentencePiece model; or the model has other ids than 0 to 3
                for pad, unk, bos and eos, byte pieces, pieces that span words, or a normaliser.
        """
        self.model = model
        self.digest = hashlib.sha256(model).hexdigest()
        self._processor = sentencepiece.SentencePieceProcessor()
        try:
            self._processor.LoadFromSerializedProto(model)
        except RuntimeError as error:
            raise UserError(
                f"{len(model)} bytes that are no SentencePiece model: give a .model file"
            ) from error
        if (ids := {name: getattr(self._processor, name)() for name in _IDS}) != _IDS:
            raise UserError(
                f"a subword model with {ids} instead of {_IDS}: train one with the latter ids"
            )
        pieces = range(self._processor.vocab_size())
        self._surface = [_surface(self._processor, piece) for piece in pieces]
        self._words = _Words(self._processor, self.vocabulary)
        if (read := "".join(self._processor.encode(normalise(_PROBE), out_type=str))) != _PROBE:
            raise UserError(
                f"a subword model that reads {_PROBE!r} as {read!r}: train one with "
                "normalization_rule_name=identity and add_dummy_prefix"
            )

    @classmethod
    def train(
        cls,
        sentences: Iterable[str],
        size: Size,
        kind: Literal["unigram", "bpe"] = "unigram",
        *,
        character_coverage: Coverage = 1.0,
        cache: Path | None = None,
        digest: str | None = None,
    ) -> "Subwords":
        """A joint model of both languages: the same text and options give the same bytes.

        Args:
            sentences: normalised lines of both languages, such as `Split.sample()`, of at most
                64 KiB each; blank ones are left out.
            size: number of pieces, the four special ones included.
            kind: "unigram" or "bpe".
            character_coverage: share of all characters that get a piece, 0.98 to 1.
            cache: folder of trained models, created if absent; None trains anew.
            digest: stands for the sentences, which are read only if the cache has no model for it;
                None to compute it from them.

        Raises:
            UserError: the text is too small or too large for the options (the message has the
                limit), there is no text, or the cache cannot be used.
        """
        own = {"vocab_size": size, "model_type": kind, "character_coverage": character_coverage}
        options = {**_FIXED, **own}
        if cache is None:
            return cls(train_model(sentences, options))
        if digest is None:
            sentences = [*sentences]
            digest = hashlib.sha256("\n".join(sentences).encode()).hexdigest()
        try:
            return cls(train_or_reuse(sentences, options, cache, digest))
        except OSError as error:
            raise UserError(
                f"the subword cache {cache} cannot be used ({error}): choose a writable folder"
            ) from error

    @classmethod
    def load(cls, path: Path) -> "Subwords":
        """The model of a `.model` file; UserError if the file or a usable model is missing."""
        try:
            return cls(read_bytes(path, _MOST_BYTES))
        except (OSError, ValueError, UserError) as error:
            advice = "" if isinstance(error, UserError) else "; check the path"
            raise UserError(f"subword model {path}: {error}{advice}") from error

    def save(self, path: Path) -> None:
        """Write the `.model` file into an existing folder, whole or not at all."""
        with replacing(path) as unfinished:
            unfinished.write_bytes(self.model)

    def __reduce__(self) -> tuple[type["Subwords"], tuple[bytes]]:
        return Subwords, (self.model,)

    def __len__(self) -> int:
        return len(self._surface)

    @cached_property
    def vocabulary(self) -> Vocabulary:
        """Size, special ids and beginnings of words, for models and decoding."""
        marked = (surface.startswith(" ") for surface in self._surface)
        special = {_SPECIAL.pad, _SPECIAL.bos, _SPECIAL.eos}
        begins = tuple(begins or piece in special for piece, begins in enumerate(marked))
        return Vocabulary(len(self), begins=begins)

    def encode(self, text: str) -> list[int]:
        """Ids of any text, which is normalised first; no BOS, no EOS, none for blank text."""
        ids: list[int] = self.encode_rows([normalise(text)]).values[:-1].tolist()
        return ids

    def encode_rows(self, lines: Iterable[str]) -> Ragged:
        """Ids of lines that are normalised already, as those of a `Split`, each ended by EOS."""
        ids, eos = self._words.__getitem__, self._words.eos
        rows = [b"".join(map(ids, line.split())) + eos for line in lines]
        values = np.frombuffer(b"".join(rows), self.vocabulary.dtype)
        return Ragged(values, bounds([*map(len, rows)]) // values.itemsize)

    def encode_sides(self, sides: tuple[Ragged, Ragged]) -> tuple[Ragged, Ragged]:
        """The same for lines of both languages in UTF-8, each line ended by LF."""
        source, target = (self.encode_rows(lines_of(side)) for side in sides)
        return source, target

    def pieces(self, ids: Iterable[int]) -> list[str]:
        """The pieces as SentencePiece spells them: U+2581 marks the first piece of a word."""
        return [self._processor.IdToPiece(piece) for piece in ids]

    def decode(self, ids: Iterable[int]) -> str:
        """The text, with single spaces; UNK decodes to ⁇, and PAD, BOS and EOS to nothing."""
        return " ".join("".join(self._surface[piece] for piece in ids).split())

    def is_blank(self, piece: int) -> bool:
        """Whether the piece adds no character to a word: a lone ▁, PAD, BOS or EOS."""
        return not self._surface[piece].strip()

    def words_touched(self, ids: Iterable[int]) -> list[int]:
        """For every subword, the 1-based index of its word.

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
        return [min(index, word) for index in touched]

    def word_ends(self, ids: Iterable[int]) -> list[int]:
        """For every word of `decode(ids).split()`, the 1-based index of its last subword."""
        steps = enumerate(pairwise([*self.words_touched(ids), 0]), 1)
        return [index for index, (word, following) in steps if word != following]


class _Words(dict[str, bytes]):
    """The ids of words, packed: no piece spans words, so a word is encoded by itself, and once.

    Words are remembered as long as there is room, the frequent ones because they come early.
    """

    def __init__(
        self, processor: sentencepiece.SentencePieceProcessor, vocabulary: Vocabulary
    ) -> None:
        super().__init__()
        self._processor, self._dtype = processor, vocabulary.dtype
        self.eos = np.asarray([vocabulary.eos], self._dtype).tobytes()

    def __missing__(self, word: str) -> bytes:
        ids = np.asarray(self._processor.encode(word), self._dtype).tobytes()
        if len(self) < _REMEMBERED:
            self[word] = ids
        return ids


def _surface(processor: sentencepiece.SentencePieceProcessor, piece: int) -> str:
    """The text of a piece: a leading space if it begins a word, then a part of one word."""
    if processor.is_unknown(piece) or processor.is_control(piece):
        return UNKNOWN if processor.is_unknown(piece) else ""
    text: str = processor.id_to_piece(piece).replace("\u2581", " ")
    if processor.is_byte(piece) or text.lstrip(" ") != "".join(text.split()):
        raise UserError(
            f"piece {piece} of the subword model, {text!r}, is a byte or spans words: "
            "train one on normalised text, without byte_fallback and with split_by_whitespace"
        )
    return text
