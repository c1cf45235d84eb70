"""One SentencePiece model for both languages, held as bytes, and where its words end."""

from __future__ import annotations

import hashlib
import io
import json
import os
import re
import uuid
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import sentencepiece

from simulmt.data.text import NORMALISATION, normalise
from simulmt.errors import UserError
from simulmt.vocabulary import Vocabulary

UNKNOWN = "\u2047"  # how the unknown subword reads after decoding: ⁇
SAMPLE = 1_000_000  # most sentences trained on: of a larger corpus, this many, evenly spaced
_SPECIAL = Vocabulary(size=4)
_IDS = {f"{name}_id": getattr(_SPECIAL, name) for name in ("pad", "unk", "bos", "eos")}
# One thread, for the same bytes every time; log messages from "fatal" up.
_RUN = {"num_threads": 1, "minloglevel": 3, "max_sentence_length": 1 << 16}
_FIXED = {**_IDS, **_RUN, "unk_surface": UNKNOWN, "normalization_rule_name": "identity"}
_PROBE = "\u2581A\u2581\u00b4\u2581\u00bd"  # A ´ ½, which SentencePiece's normalisers change


class Subwords:
    """A SentencePiece model each of whose pieces is a part of one word, or begins one.

    A word is a maximal run of anything but white space in the decoded text. `encode` normalises
    as `normalise` does, so for text whose characters are all known
    `decode(encode(text)) == normalise(text)`; unknown characters come back as ⁇.
    """

    def __init__(self, model: bytes) -> None:
        """Read a serialised model.

        Raises:
            UserError: no SentencePiece model, or one with other ids for pad, unk, bos, eos than
                0 to 3, with byte pieces or pieces that span words, or with a normaliser.
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
        self._starts = [surface.startswith(" ") for surface in self._surface]
        self._blank = [not surface.strip() for surface in self._surface]
        if (read := "".join(self._processor.encode(normalise(_PROBE), out_type=str))) != _PROBE:
            raise UserError(
                f"a subword model that reads {_PROBE!r} as {read!r}: train one with "
                "normalization_rule_name=identity and add_dummy_prefix"
            )

    @classmethod
    def train(
        cls,
        sentences: Iterable[str],
        size: int,
        kind: str = "unigram",
        *,
        character_coverage: float = 1.0,
        cache: Path | None = None,
    ) -> Subwords:
        """Train a joint model, or take it from the cache: same text and options, same bytes.

        Args:
            sentences: text of both languages, such as `split.text`;
                at most `SAMPLE` of them are used, and none of more than 64 KiB.
            size: number of pieces, the four special ones included.
            kind: "unigram" or "bpe".
            character_coverage: share of all characters that get a piece, 0.98 to 1.
            cache: folder of trained models, made where absent; None trains anew.

        Raises:
            UserError: an impossible choice (with the limit), no text, or an unusable cache.
        """
        if kind not in ("unigram", "bpe"):
            raise UserError(f"subword kind {kind!r} is unknown: choose 'unigram' or 'bpe'")
        if not 0.98 <= character_coverage <= 1:
            raise UserError(f"character_coverage={character_coverage}: choose from 0.98 to 1")
        if size <= _SPECIAL.size:
            raise UserError(f"subword size={size} holds the 4 special pieces at most: raise it")
        text = _Text(sentences)
        options = {"vocab_size": size, "model_type": kind, "character_coverage": character_coverage}
        try:
            return cls(_train_once(text, {**_FIXED, **options}, cache))
        except OSError as error:
            raise UserError(
                f"the subword cache {cache} cannot be used ({error}): choose a writable folder"
            ) from error

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Subwords:
        """Read a `.model` file; UserError where it is absent or no usable model."""
        try:
            return cls(Path(path).read_bytes())
        except (OSError, UserError) as error:
            advice = "; check the path" if isinstance(error, OSError) else ""
            raise UserError(f"subword model {path}: {error}{advice}") from error

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the model as SentencePiece does, whole or not at all; the folder must exist."""
        _write(Path(path), self.model)

    def __len__(self) -> int:
        return len(self._surface)

    @property
    def vocabulary(self) -> Vocabulary:
        """Size and special ids, for models and decoding."""
        return Vocabulary(len(self))

    def __reduce__(self) -> tuple[type[Subwords], tuple[bytes]]:
        return Subwords, (self.model,)

    def encode(self, text: str) -> list[int]:
        """Ids of the normalised text, without BOS and EOS; empty for blank text."""
        return [*self._processor.encode(normalise(text))]

    def encode_batch(self, texts: Iterable[str]) -> list[list[int]]:
        """`encode` of every text, on all cores."""
        return [*self._processor.encode([normalise(text) for text in texts])]

    def pieces(self, ids: Iterable[int]) -> list[str]:
        """The pieces' own spelling, a word's first one marked by U+2581."""
        return [self._processor.IdToPiece(piece) for piece in ids]

    def decode(self, ids: Iterable[int]) -> str:
        """Text with single spaces; PAD, BOS and EOS read as nothing, UNK as ⁇."""
        return " ".join("".join(self._surface[piece] for piece in ids).split())

    def is_blank(self, piece: int) -> bool:
        """Whether the piece is a lone ▁ or adds nothing to the text."""
        return self._blank[piece]

    def words_touched(self, ids: Iterable[int]) -> list[int]:
        """For every subword the 1-based index of the word it belongs to.

        A lone ▁ belongs to the word after it, at the end to the last one. 0 where no word is.
        """
        touched: list[int] = []
        word, boundary = 0, True
        for piece in ids:
            boundary = boundary or self._starts[piece]
            touched.append(word + boundary)
            if boundary and not self._blank[piece]:
                word, boundary = word + 1, False
        return [min(index, word) for index in touched]

    def word_ends(self, ids: Iterable[int]) -> list[int]:
        """For every word of `decode(ids).split()` the 1-based index of its last subword."""
        touched = self.words_touched(ids)
        following = [*touched[1:], 0][: len(touched)]
        pairs = enumerate(zip(touched, following, strict=True), 1)
        return [index for index, (word, after) in pairs if word != after]


class _Text:
    """The sentences to train on, normalised on the fly, as often as wanted."""

    def __init__(self, sentences: Iterable[str]) -> None:
        self.sentences = sentences if isinstance(sentences, Sequence) else list(sentences)

    def __iter__(self) -> Iterator[str]:
        count, kept = len(self.sentences), min(len(self.sentences), SAMPLE)
        lines = (normalise(self.sentences[index * count // kept]) for index in range(kept))
        return filter(None, lines)

    def digest(self, options: dict[str, Any]) -> str:
        """SHA-256 in hex of all that decides the model."""
        settings = [options, NORMALISATION, sentencepiece.__version__]
        state = hashlib.sha256(json.dumps(settings, sort_keys=True).encode())
        for line in self:
            state.update(b"\n" + line.encode("utf-8"))
        return state.hexdigest()


def _surface(processor: sentencepiece.SentencePieceProcessor, piece: int) -> str:
    """What a piece adds to the text: at most a leading space, then a part of one word."""
    if processor.is_unknown(piece) or processor.is_control(piece):
        return UNKNOWN if processor.is_unknown(piece) else ""
    text: str = processor.id_to_piece(piece).replace("\u2581", " ")
    if processor.is_byte(piece) or text.lstrip(" ") != "".join(text.split()):
        raise UserError(
            f"piece {piece} of the subword model, {text!r}, is a byte or spans words: "
            "train one without byte_fallback and with split_by_whitespace"
        )
    return text


def _train(text: Iterable[str], options: dict[str, Any]) -> bytes:
    if next(iter(text), None) is None:
        raise UserError("no text to train subwords on: give at least one non-empty sentence")
    model = io.BytesIO()
    train = sentencepiece.SentencePieceTrainer.train
    try:
        train(sentence_iterator=iter(text), model_writer=model, **options)
    except RuntimeError as error:
        raise UserError(_explain(str(error), options)) from error
    return model.getvalue()


def _explain(message: str, options: dict[str, Any]) -> str:
    """What SentencePiece has to say, with the limit and the remedy."""
    choice = f"subword size={options['vocab_size']} with {options['model_type']}"
    if found := re.search(r"Please set it to a value <= (\d+)", message):
        return f"{choice} is too large for this text: set it to {found[1]} or less, or add text"
    if found := re.search(r"smaller than required_chars. \d+ vs (\d+)", message):
        coverage = f"lower character_coverage (now {options['character_coverage']})"
        return f"{choice} is too small for this text: set it to {found[1]} or more, or {coverage}"
    return f"{choice}: SentencePiece refuses ({message.strip()}); choose another, or check the text"


def _train_once(text: _Text, options: dict[str, Any], cache: Path | None) -> bytes:
    """The cached model, or a new one: processes that train at the same time write the same."""
    if cache is None:
        return _train(text, options)
    entry = cache.expanduser() / f"{text.digest(options)}.subwords"
    if (model := _read_entry(entry)) is None:
        entry.parent.mkdir(parents=True, exist_ok=True)
        model = _train(text, options)
        _write(entry, hashlib.sha256(model).digest() + model)
    return model


def _read_entry(entry: Path) -> bytes | None:
    """The model behind its SHA-256; None where there is none, or a damaged one."""
    content = entry.read_bytes() if entry.is_file() else b""
    digest, model = content[:32], content[32:]
    return model if model and hashlib.sha256(model).digest() == digest else None


def _write(path: Path, content: bytes) -> None:
    """All or nothing, whoever else writes or reads the same path."""
    draft = path.with_name(f"{path.name}.{uuid.uuid4().hex}.tmp")
    try:
        draft.write_bytes(content)
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)
