"""The subwords of Marian's models, as of OPUS-MT: a SentencePiece model for each language."""

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from simulmt.data.tokenizer import (
    MODEL_BYTES,
    MOST_SUBWORDS,
    SPACE,
    UNKNOWN,
    Tokenizer,
    beginnings,
    open_model,
)
from simulmt.errors import UserError
from simulmt.untrusted import JSON_BYTES, parse_json, read_bytes
from simulmt.vocabulary import Vocabulary

SOURCE, TARGET, IDS = "source.spm", "target.spm", "vocab.json"
SPECIAL = "special_ids.json"
"""The special ids, by their names in `Vocabulary`."""
FILES = {SOURCE: MODEL_BYTES, TARGET: MODEL_BYTES, IDS: JSON_BYTES, SPECIAL: JSON_BYTES}
"""The files that hold the subwords, and the most bytes of each."""


class MarianSubwords(Tokenizer):
    """Two SentencePiece models with the ids of `vocab.json`, which both languages share.

    A piece without an id is UNK. UNK begins a word, since the missing piece may begin one. Text is
    encoded word by word. A SentencePiece model may normalise a word to several; models and policies
    then read several words, and delays still count the words of the text.

    Args:
        files: the content of `FILES`, by their names.

    Raises:
        UserError: a file is missing or damaged, or the files do not belong together.
    """

    def __init__(self, files: Mapping[str, bytes]) -> None:
        if missing := [name for name in FILES if name not in files]:
            raise UserError(f"the subwords lack {', '.join(missing)}: give {', '.join(FILES)}")
        self._files = {name: files[name] for name in FILES}
        try:
            ids = ids_of(files[IDS])
            vocabulary = _special_ids(files[SPECIAL], ids)
        except ValueError as error:
            raise UserError(f"{IDS} or {SPECIAL} is damaged ({error}): take another copy") from None
        spelled = sorted(ids, key=ids.__getitem__)
        blank = {*vocabulary.special, *map(ids.__getitem__, codes_of(ids).values())}
        surfaces = ["" if ids[piece] in blank else _surface(piece) for piece in spelled]
        surfaces[vocabulary.unk] = f" {UNKNOWN}"
        known = {piece: number for piece, number in ids.items() if number not in blank}
        encoders = (_encoder(name, files[name], known, vocabulary.unk) for name in (SOURCE, TARGET))
        begins = beginnings(surfaces, blank)
        super().__init__(
            vocabulary._replace(begins=begins), spelled, surfaces, (next(encoders), next(encoders))
        )

    @property
    def files(self) -> Mapping[str, bytes]:
        """The content of `FILES`."""
        return self._files

    @classmethod
    def load(cls, folder: Path) -> "MarianSubwords":
        """Return the subwords of a folder; UserError if a file is missing or damaged."""
        return cls({name: read_file(folder / name, most) for name, most in FILES.items()})

    def __reduce__(self) -> tuple[type["MarianSubwords"], tuple[Mapping[str, bytes]]]:
        return MarianSubwords, (self._files,)


def read_file(path: Path, most: int) -> bytes:
    """Return the content of a file of at most so many bytes; UserError if there is none."""
    try:
        return read_bytes(path, most)
    except (OSError, ValueError) as error:
        raise UserError(f"{path} cannot be read ({error}): take another copy") from None


def ids_of(content: bytes) -> dict[str, int]:
    """Return the ids of the pieces in a `vocab.json`: each number below their count, once.

    Raises:
        ValueError: it holds something else.
    """
    ids = parse_json(content)
    if not isinstance(ids, dict) or not all(type(number) is int for number in ids.values()):
        raise ValueError(f"{IDS} is no table of whole numbers by piece")
    if len(ids) > MOST_SUBWORDS or sorted(ids.values()) != [*range(len(ids))]:
        raise ValueError(
            f"the {len(ids):,} ids of {IDS} are not 0 to {len(ids) - 1:,}, each once, or are more "
            f"than {MOST_SUBWORDS:,}"
        )
    for piece in ids:
        piece.encode("utf-8")  # raises for half a surrogate pair
    return ids


def codes_of(ids: Mapping[str, int]) -> dict[str, str]:
    """Return the pieces that name the language to be written, such as `>>fra<<`, by its code."""
    return {piece[2:-2]: piece for piece in ids if piece.startswith(">>") and piece.endswith("<<")}


def special_file(vocabulary: Vocabulary) -> bytes:
    """Return the content of the file of special ids."""
    named = {name: getattr(vocabulary, name) for name in ("pad", "unk", "bos", "eos", "opening")}
    return json.dumps(named).encode()


def _special_ids(content: bytes, ids: Mapping[str, int]) -> Vocabulary:
    """Return the special ids as a vocabulary; ValueError if they make no sense."""
    named = parse_json(content)
    if not isinstance(named, dict) or {*named} != {"pad", "unk", "bos", "eos", "opening"}:
        raise ValueError(f"{SPECIAL} does not hold pad, unk, bos, eos and opening")
    opening = named.pop("opening")
    if any(type(number) is not int or not 0 <= number < len(ids) for number in named.values()):
        raise ValueError(f"the ids {named} are not all whole numbers below {len(ids):,}")
    if len({*named.values()}) < (3 if named["pad"] == named["bos"] else 4):
        raise ValueError(f"of the ids {named} only pad and bos may be the same")
    languages = [ids[piece] for piece in codes_of(ids).values()]
    if not isinstance(opening, list) or len(opening) > 1 or not {*opening} <= {*languages}:
        raise ValueError(f"opening is {opening!r:.80}, no list of up to one language's id")
    return Vocabulary(len(ids), **named, opening=tuple(opening))


def _surface(piece: str) -> str:
    """Return the text of a piece, with a leading space if it begins a word."""
    begins = piece.startswith(SPACE)
    text = piece.lstrip(SPACE)
    if SPACE in text:
        raise UserError(
            f"{IDS} has the piece {piece!r:.80}, which spans words: take a model whose "
            "SentencePiece models split by white space"
        )
    return " " * begins + "".join(text.split())


def _encoder(
    name: str, model: bytes, known: Mapping[str, int], unk: int
) -> Callable[[str], Sequence[int]]:
    """Return the function from a word to its ids.

    Raises:
        UserError: the bytes are no SentencePiece model, or none of `vocab.json`.
    """
    try:
        processor = open_model(model)
    except ValueError as error:
        raise UserError(f"{name} has {error}: take another copy") from None
    pieces = range(processor.vocab_size())
    read = "".join(processor.encode("A", out_type=str))
    if any(map(processor.is_byte, pieces)) or not read.startswith(SPACE):
        raise UserError(
            f"{name} reads 'A' as {read!r:.80}, or has byte pieces: take a model trained with "
            "add_dummy_prefix and without byte_fallback"
        )
    missing = sum(processor.id_to_piece(piece) not in known for piece in pieces)
    if 2 * missing > len(pieces):
        raise UserError(
            f"{IDS} lacks {missing:,} of the {len(pieces):,} pieces of {name}: they are of "
            "different models; take all files from one"
        )

    def encode(word: str) -> Sequence[int]:
        return [known.get(piece, unk) for piece in processor.encode(word, out_type=str)]

    return encode
