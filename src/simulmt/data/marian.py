"""The subwords of Marian's models, as of OPUS-MT: a SentencePiece model for each language."""

import json
from collections.abc import Mapping
from functools import partial
from itertools import accumulate

import sentencepiece
from pydantic import TypeAdapter

from simulmt.data.text import normalise
from simulmt.data.tokenizer import SPACE, UNKNOWN, Tokenizer, beginnings, open_model
from simulmt.decoding.word_map import WordMap
from simulmt.decoding.writing import WORDS, Writing
from simulmt.errors import UserError
from simulmt.models.vocabulary import Vocabulary
from simulmt.options import parse_json

SOURCE, TARGET, IDS = "source.spm", "target.spm", "vocab.json"
SPECIAL = "special_ids.json"
"""The special ids, by their names in `Vocabulary`."""
FILES = (SOURCE, TARGET, IDS, SPECIAL)
"""The files that hold the subwords."""


class MarianSubwords(Tokenizer):
    """Two SentencePiece models with the ids of `vocab.json`, which both languages share.

    A piece without an id is UNK. UNK begins a word, since the missing piece may begin one. Text is
    encoded word by word. A SentencePiece model may normalise one word to several. Models and
    policies then read several words; delays still count the words of the text.

    If the characters of the target are words, its pieces hold several of them, and a target text is
    encoded as a whole.

    Args:
        files: the content of `FILES`, by their names.

    Raises:
        UserError: a file is corrupt, or the files do not belong together.
    """

    def __init__(self, files: Mapping[str, bytes], writing: Writing = WORDS) -> None:
        if writing.source:
            raise UserError(
                "data.characters has source, but the subwords of an imported model span "
                "characters, so it reads words: leave source out, or train subwords "
                "(data.subwords.model=null)"
            )
        ids = ids_of(files[IDS])
        vocabulary = _special_ids(files[SPECIAL], ids)
        spelled = sorted(ids, key=ids.__getitem__)
        blank = {*vocabulary.special, *map(ids.__getitem__, codes_of(ids).values())}
        surfaces = ["" if ids[piece] in blank else _surface(piece) for piece in spelled]
        surfaces[vocabulary.unk] = f" {UNKNOWN}"
        known = {piece: number for piece, number in ids.items() if number not in blank}
        processors = [_processor(name, files[name], known) for name in FILES[:2]]
        source, target = (partial(_ids, each, known, vocabulary.unk) for each in processors)
        self._of_target = processors[1]
        vocabulary = vocabulary._replace(begins=beginnings(surfaces, blank), whole=writing.target)
        kept = {name: files[name] for name in FILES}
        super().__init__(kept, vocabulary, spelled, surfaces, (source, target), writing)

    def reference_words(self, text: str) -> WordMap:
        """The words of a reference; SentencePiece may make several characters of one, or none."""
        if not self.writing.target:
            found, count = super().reference_words(text), len(normalise(text).split())
            # words without a piece at the end are written with the last piece
            return WordMap(count if word == found[-1] else word for word in found)
        (joined,) = self._parts(normalise(text), characters=True)
        pieces = self._of_target.encode(joined, out_type=str)
        _, places = self._of_target.normalize(joined, with_offsets=True)
        words = [places[end - 1] + 1 for end in accumulate(map(len, pieces))]
        return WordMap([*words[:-1], len(joined)] if words else [])


def ids_of(content: bytes) -> dict[str, int]:
    """Return the ids of the pieces in a `vocab.json`.

    Raises:
        UserError: they are not the numbers below their count, each once.
    """
    try:
        ids = parse_json(TypeAdapter(dict[str, int]), content)
    except UserError as error:
        raise UserError(f"{IDS}: {error}; use another copy") from None
    if sorted(ids.values()) != [*range(len(ids))]:
        raise UserError(f"{IDS} does not number its {len(ids):,} pieces from 0: use another copy")
    return ids


def codes_of(ids: Mapping[str, int]) -> dict[str, str]:
    """Return the pieces that name the language to be written, such as `>>fra<<`, by its code."""
    return {piece[2:-2]: piece for piece in ids if piece.startswith(">>") and piece.endswith("<<")}


def special_file(vocabulary: Vocabulary) -> bytes:
    """Return the content of the file of special ids."""
    named = {name: getattr(vocabulary, name) for name in ("pad", "unk", "bos", "eos", "opening")}
    return json.dumps(named).encode()


def _special_ids(content: bytes, ids: Mapping[str, int]) -> Vocabulary:
    """Return the special ids as a vocabulary; UserError if they are not valid."""
    named = json.loads(content)
    vocabulary = Vocabulary(len(ids), **(named | {"opening": tuple(named["opening"])}))
    special, opening = {*vocabulary.special}, {*vocabulary.opening}
    languages = {ids[piece] for piece in codes_of(ids).values()}
    distinct = 3 if vocabulary.pad == vocabulary.bos else 4
    if len(special) < distinct or not special <= {*ids.values()} or not opening <= languages:
        raise UserError(
            f"the special ids {named} must be distinct ids of {IDS}, except that pad and bos may "
            "be the same: use another model"
        )
    return vocabulary


def _surface(piece: str) -> str:
    """Return the text of a piece, with a leading space if it begins a word."""
    begins = piece.startswith(SPACE)
    text = piece.lstrip(SPACE)
    if SPACE in text:
        raise UserError(
            f"{IDS} has the piece {piece!r:.80}, which spans words: use a model whose "
            "SentencePiece models split on white space"
        )
    return " " * begins + "".join(text.split())


def _processor(
    name: str, model: bytes, known: Mapping[str, int]
) -> sentencepiece.SentencePieceProcessor:
    """Return a SentencePiece model.

    Raises:
        UserError: the bytes are not a SentencePiece model, or its pieces are not in `vocab.json`.
    """
    processor = open_model(model, name)
    pieces = range(processor.vocab_size())
    read = "".join(processor.encode("A", out_type=str))
    if any(map(processor.is_byte, pieces)) or not read.startswith(SPACE):
        raise UserError(
            f"{name} reads 'A' as {read!r:.80}, or has byte pieces: use a model trained with "
            "add_dummy_prefix and without byte_fallback"
        )
    missing = sum(processor.id_to_piece(piece) not in known for piece in pieces)
    if 2 * missing > len(pieces):
        raise UserError(
            f"{IDS} lacks {missing:,} of the {len(pieces):,} pieces of {name}: they come "
            "from different models; use files that all come from one"
        )
    return processor


def _ids(
    processor: sentencepiece.SentencePieceProcessor, known: Mapping[str, int], unk: int, text: str
) -> list[int]:
    """Return the ids of a word, or of a text in characters."""
    return [known.get(piece, unk) for piece in processor.encode(text, out_type=str)]
