"""One SentencePiece model for both languages, and the kind of subwords that files hold."""

import io
import re
from collections.abc import Iterable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from threading import Thread
from typing import Annotated, Literal, TypeAlias

import sentencepiece
from annotated_types import Ge, Le

from simulmt.data import marian, store
from simulmt.data.text import NORMALISATION
from simulmt.data.tokenizer import MOST_SUBWORDS, UNKNOWN, Tokenizer, beginnings, open_model
from simulmt.decoding.writing import WORDS, Writing
from simulmt.errors import UserError
from simulmt.models.vocabulary import Vocabulary
from simulmt.options import Config

SUBWORDS = "subwords.model"
"""The name of the file that holds it."""
_SPECIAL = Vocabulary(size=4)
_IDS = {f"{name}_id": getattr(_SPECIAL, name) for name in ("pad", "unk", "bos", "eos")}
# One thread gives the same bytes every time; level 3 logs fatal errors only.
_RUN = {"num_threads": 1, "minloglevel": 3, "max_sentence_length": 1 << 16}
_FIXED = {**_IDS, **_RUN, "unk_surface": UNKNOWN, "normalization_rule_name": "identity"}
_PROBE = [*map(chr, range(0x21, 0x2500))]  # SentencePiece's normalisers change some of these
VocabularySize: TypeAlias = Annotated[int, Ge(5), Le(MOST_SUBWORDS)]  # 4 are special
Coverage: TypeAlias = Annotated[float, Ge(0.98), Le(1)]
Kind: TypeAlias = Literal["unigram", "bpe"]


@dataclass(frozen=True)
class SubwordOptions:
    """A `data.subwords` group.

    Attributes:
        size: As for `Subwords.train`, as are `kind` and `character_coverage`.
        model: A SentencePiece file, or a trained model that has one; None to train one.
    """

    size: VocabularySize
    kind: Kind = "unigram"
    character_coverage: Coverage = 1.0
    model: Path | None = None


class Subwords(Tokenizer):
    """A SentencePiece model of both languages, whose every piece is a part of one word.

    For text of known characters `decode(encode(text)) == normalise(text)`; an unknown character
    decodes to ⁇.
    """

    def __init__(self, files: Mapping[str, bytes], writing: Writing = WORDS) -> None:
        """Read a serialised model.

        Args:
            files: the model, by the name `SUBWORDS`.
            writing: what a word is, on either side.

        Raises:
            UserError: the bytes are not a SentencePiece model; or the model has other ids than 0 to
                3 for pad, unk, bos and eos, byte pieces, pieces that span words, or a normaliser.
        """
        processor = open_model(files[SUBWORDS], "the subword model")
        if (ids := {name: getattr(processor, name)() for name in _IDS}) != _IDS:
            raise UserError(
                f"the subword model has {ids} instead of {_IDS}: train one with the expected ids"
            )
        pieces = range(processor.vocab_size())
        surfaces = [_surface(processor, piece) for piece in pieces]
        special = (_SPECIAL.pad, _SPECIAL.bos, _SPECIAL.eos)
        vocabulary = Vocabulary(len(surfaces), begins=beginnings(surfaces, special))
        spelled = [processor.id_to_piece(piece) for piece in pieces]
        own = {SUBWORDS: files[SUBWORDS]}  # an export writes what it holds
        super().__init__(own, vocabulary, spelled, surfaces, (processor.encode,) * 2, writing)
        for character, found in zip(_PROBE, processor.normalize(_PROBE), strict=True):
            if found != f"\u2581{character}":
                raise UserError(
                    f"the subword model reads {character!r} as {found!r}: train one with "
                    "normalization_rule_name=identity and add_dummy_prefix"
                )

    @classmethod
    def train(
        cls,
        sentences: Iterable[str],
        size: VocabularySize,
        kind: Kind = "unigram",
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
            cache: folder of trained models, created if absent; None to train without one.
            digest: identifies the sentences, which are read only if the cache has no model for it;
                a cache needs it.

        Raises:
            UserError: the text is too small or too large for the options (the message has the
                limit), there is no text, or the cache cannot be used.
        """
        own = {"vocab_size": size, "model_type": kind, "character_coverage": character_coverage}
        options = {**_FIXED, **own}
        if cache is None:
            return cls({SUBWORDS: _trained(sentences, options)})
        assert digest is not None, "a cache needs a digest of the sentences"

        def make(folder: Path) -> Mapping[str, object]:
            (folder / SUBWORDS).write_bytes(_trained(sentences, options))
            return {}

        key = store.digest([options, NORMALISATION, sentencepiece.__version__, digest])
        return cls.load(*store.Entry(cache / key, make).files(SUBWORDS))

    @classmethod
    def load(cls, path: Path) -> "Subwords":
        """The model of a `.model` file; UserError if it is not a usable one."""
        try:
            return cls({SUBWORDS: path.read_bytes()})
        except UserError as error:
            raise UserError(f"{path}: {error}") from None


def _surface(processor: sentencepiece.SentencePieceProcessor, piece: int) -> str:
    """The text of a piece: a leading space if it begins a word, then a part of one word."""
    if processor.is_unknown(piece) or processor.is_control(piece):
        return UNKNOWN if processor.is_unknown(piece) else ""
    text: str = processor.id_to_piece(piece).replace("\u2581", " ")
    if processor.is_byte(piece) or text.lstrip(" ") != "".join(text.split()):
        raise UserError(
            f"piece {piece} of the subword model, {text!r}, is a byte or spans words: "
            "train a model on normalised text, without byte_fallback and with split_by_whitespace"
        )
    return text


def _kept(line: str) -> str:
    """A line without what SentencePiece drops from training text, some of it with its line."""
    line = line.replace("\u2585", " ").replace("\0", " ")
    return re.sub("<(unk|/?s|pad)>", r"< \1>", line) if "<" in line else line


def _trained(sentences: Iterable[str], options: Config) -> bytes:
    """A serialised model; UserError if the text does not suit the options, or there is none."""
    lines = filter(str.strip, map(_kept, sentences))
    first = next(lines, None)
    if first is None:
        raise UserError("no text to train subwords on: give at least one non-empty sentence")
    model, done = io.BytesIO(), Future[None]()
    text = chain([first], lines)

    def train() -> None:
        try:
            sentencepiece.SentencePieceTrainer.train(
                sentence_iterator=text, model_writer=model, **options
            )
            done.set_result(None)
        except BaseException as error:
            done.set_exception(error)

    Thread(target=train, daemon=True).start()  # so that Ctrl-C need not wait for it
    try:
        done.result()
    except RuntimeError as error:
        choice = f"data.subwords.size={options['vocab_size']} with {options['model_type']}"
        raise UserError(f"{choice}: {str(error).rpartition('] ')[2] or error}") from error
    return model.getvalue()


def tokenizer_of(files: Mapping[str, bytes]) -> Tokenizer:
    """Return the subwords that some files hold."""
    return (Subwords if SUBWORDS in files else marian.MarianSubwords)(files)


def load_tokenizer(folder: Path) -> Tokenizer:
    """Return the subwords that the files of a folder hold."""
    names = marian.FILES if (folder / marian.IDS).exists() else (SUBWORDS,)
    return tokenizer_of({name: (folder / name).read_bytes() for name in names})
