"""A folder in Marian's format as a trained model.

config.json            the sizes and the special ids
model.safetensors      the weights, or pytorch_model.bin
source.spm, target.spm the SentencePiece models
vocab.json             the ids of the pieces of both languages
tokenizer_config.json  the languages
README.md              the card, which may name the licence
"""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import safetensors.torch
from torch import Size

from simulmt.builders import build_mechanism, outline_model
from simulmt.data.marian import (
    FILES,
    IDS,
    SPECIAL,
    MarianSubwords,
    codes_of,
    ids_of,
    read_file,
    special_file,
)
from simulmt.data.text import NORMALISATION
from simulmt.data.tokenizer import Tokenizer
from simulmt.errors import UserError
from simulmt.options import Config
from simulmt.run_directory import CONFIG
from simulmt.saved.archive import open_archive
from simulmt.saved.exported import CARD, WEIGHTS
from simulmt.saved.marian.config import beam, model_options, special_ids
from simulmt.saved.marian.weights import from_marian
from simulmt.saved.trained import Trained
from simulmt.untrusted import read_bytes, read_json
from simulmt.vocabulary import Vocabulary

PICKLED, TOKENIZER, GENERATION = (
    "pytorch_model.bin",
    "tokenizer_config.json",
    "generation_config.json",
)
SOFT: Config = {
    "name": "soft",
    "schedule": "full_sentence",
    "span": "lookback",
    "heads": "usual",
    "score": "usual",
}
"""The mechanism of every such model, as in `conf/mechanism/soft.yaml`."""
_MOST_BYTES = 1 << 36  # of the weights
_CARD_BYTES = 1 << 20
_BATCH_TOKENS = 4096
_LENGTH_PENALTY = 0.6


def read(folder: Path, target: str | None = None) -> Trained:
    """Return the model of a folder; nothing in it is executed.

    Args:
        folder: the folder.
        target: the code of the language to write, for a model that writes several.

    Raises:
        UserError: a file is missing or damaged, or the model has a part that the Transformer here
            has not.
    """
    config, described = _plain(folder / CONFIG), _plain(folder / TOKENIZER)
    options, ids = model_options(config), special_ids(config)
    subwords = _subwords(folder, described, ids, target)
    if len(subwords) != config.get("vocab_size", len(subwords)):
        raise UserError(
            f"{folder / IDS} has {len(subwords):,} ids, config.json has vocab_size="
            f"{config['vocab_size']:,}: take all files from one model"
        )
    model = outline_model(options, build_mechanism(SOFT), subwords.vocabulary)
    shapes = {name: value.shape for name, value in model.state_dict().items()}
    generation = _plain(folder / GENERATION) if (folder / GENERATION).exists() else {}
    return Trained(
        path=folder,
        config=_config(folder, options, beam(generation) or beam(config)),
        manifest=_manifest(folder, described, subwords, target),
        needs={},
        subwords=subwords,
        weights=_weights(folder, options, shapes),
    )


def licence(folder: Path) -> str | None:
    """Return the licence that the card of a folder names at its top; None if there is none."""
    try:
        card = read_bytes(folder / CARD, _CARD_BYTES).decode("utf-8", errors="replace")
    except (OSError, ValueError):
        return None
    front = re.match(r"---\r?\n(.*?)\n---", card, re.DOTALL)
    named = (
        re.search(r"^license:[ \t]*[\"']?([\w.+-]{1,60})", front[1], re.MULTILINE)
        if front
        else None
    )
    return named[1] if named else None


def _plain(path: Path) -> dict[str, Any]:
    """Return the object of a JSON file."""
    try:
        content = read_json(path)
    except (OSError, ValueError) as error:
        raise UserError(
            f"{path} is absent or damaged ({error}): give a folder in Marian's format"
        ) from None
    if not isinstance(content, dict):
        raise UserError(f"{path} holds no JSON object: give a folder in Marian's format")
    return content


def _subwords(
    folder: Path, described: Config, ids: Mapping[str, int], target: str | None
) -> MarianSubwords:
    """Return the subwords of a folder."""
    for name, only in (("tokenizer_class", "MarianTokenizer"), ("separate_vocabs", False),
                       ("sp_model_kwargs", {})):  # fmt: skip
        if described.get(name, only) not in (only, None):
            raise UserError(
                f"{name} of {folder / TOKENIZER} is {described[name]!r:.80}; only {only!r} is "
                "supported: take another model"
            )
    own = {name: read_file(folder / name, most) for name, most in FILES.items() if name != SPECIAL}
    try:
        pieces = ids_of(own[IDS])
    except ValueError as error:
        raise UserError(f"{folder / IDS} is damaged ({error}): take another copy") from None
    unk, eos, pad = (_piece(described, f"{name}_token") for name in ("unk", "eos", "pad"))
    for piece, number in ((eos, ids["eos"]), (pad, ids["pad"])):
        if pieces.get(piece) != number:
            raise UserError(
                f"{folder / IDS} gives {piece!r:.80} the id {pieces.get(piece)}, config.json "
                f"{number}: take all files from one model"
            )
    if unk not in pieces:
        raise UserError(f"{folder / IDS} has no {unk!r:.80}: take all files from one model")
    opening = _opening(pieces, target)
    vocabulary = Vocabulary(
        len(pieces), ids["pad"], pieces[unk], ids["bos"], ids["eos"], opening=opening
    )
    return MarianSubwords({**own, SPECIAL: special_file(vocabulary)})


def _piece(described: Config, name: str) -> str:
    """Return a special piece that `tokenizer_config.json` may name."""
    usual = {"unk_token": "<unk>", "eos_token": "</s>", "pad_token": "<pad>"}[name]
    piece = described.get(name, usual)
    piece = piece.get("content") if isinstance(piece, dict) else piece
    if not isinstance(piece, str):
        raise UserError(f"{name} of {TOKENIZER} is {piece!r:.80}, no text: take another copy")
    return piece


def _opening(pieces: Mapping[str, int], target: str | None) -> tuple[int, ...]:
    """Return the ids that open a source sentence, to say which language to write."""
    codes = codes_of(pieces)
    known = ", ".join([*sorted(codes)[:12], *["..."][: len(codes) > 12]])
    if target is None:
        if codes:
            raise UserError(f"the model writes several languages: choose target={known}")
        return ()
    if target not in codes:
        raise UserError(
            f"target={target}: the model "
            + (f"writes {known}" if codes else "writes one language: leave target out")
        )
    return (pieces[codes[target]],)


def _config(folder: Path, options: Config, beams: int | None) -> dict[str, Any]:
    """Return a configuration of the model alone."""
    return {
        "mechanism": dict(SOFT),
        "model": dict(options),
        "data": {"name": _name(folder), "corpus": "unknown", "batch_tokens": _BATCH_TOKENS},
        "decoding": {"beam": beams, "length_penalty": _LENGTH_PENALTY},
    }


def _manifest(
    folder: Path, described: Config, subwords: Tokenizer, target: str | None
) -> dict[str, Any]:
    """Return a manifest without splits: the training data are unknown."""
    codes = (described.get("source_lang"), target or described.get("target_lang"))
    source, written = (
        code if isinstance(code, str) and re.fullmatch(r"[\w-]{1,40}", code) else "und"
        for code in codes
    )
    return {
        "name": _name(folder),
        "source_language": source,
        "target_language": written,
        "normalisation": NORMALISATION,
        "subwords": {"digest": subwords.digest, "size": len(subwords)},
        "splits": {},
        "licence": licence(folder),
    }


def _name(folder: Path) -> str:
    return re.sub(r"[^\w.+-]", "_", folder.resolve().name)[:60] or "marian"


def _weights(folder: Path, options: Config, shapes: Mapping[str, Size]) -> dict[str, Any]:
    """Return the parameters by their names here."""
    path = folder / WEIGHTS
    if path.exists():
        try:
            content = safetensors.torch.load(read_bytes(path, _MOST_BYTES))
        except Exception as error:  # of any type, for an odd format or shape
            raise UserError(f"{path} holds no readable weights ({error})") from None
        return from_marian(path, content, options, shapes)
    path = folder / PICKLED
    if not path.exists():
        raise UserError(f"{folder} has neither {WEIGHTS} nor {PICKLED}: take a whole model")
    weights = open_archive(path, f"take a model with {WEIGHTS}, or save it anew with torch")
    if not isinstance(weights, dict) or not all(isinstance(name, str) for name in weights):
        raise UserError(f"{path} holds no parameters by name: take another copy of the model")
    return from_marian(path, weights, options, shapes)
