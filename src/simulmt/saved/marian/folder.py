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

from torch import Tensor

from simulmt.data import marian
from simulmt.data.manifest import Manifest, SubwordsRecord
from simulmt.data.marian import IDS, MarianSubwords
from simulmt.data.text import NORMALISATION
from simulmt.data.writing_options import unspaced_language
from simulmt.decoding.writing import WORDS, Writing
from simulmt.errors import UserError
from simulmt.files.run_directory import CONFIG, WEIGHTS
from simulmt.models.vocabulary import Vocabulary
from simulmt.options import Config
from simulmt.parts.configuration import Setup
from simulmt.saved.checkpoint import read_torch
from simulmt.saved.exported import CARD, read_tensors
from simulmt.saved.marian.config import GenerationFields, ModelFields, TokenizerFields, read_fields
from simulmt.saved.marian.weights import from_marian
from simulmt.saved.trained import Trained

PICKLED = "pytorch_model.bin"
TOKENIZER, GENERATION = "tokenizer_config.json", "generation_config.json"
SOFT: Config = {
    "name": "soft",
    "schedule": "full_sentence",
    "span": "lookback",
    "heads": "usual",
    "score": "usual",
}
"""The mechanism of every such model, as in `conf/mechanism/soft.yaml`."""
_NEEDED = (CONFIG, TOKENIZER, marian.SOURCE, marian.TARGET, IDS, f"{WEIGHTS} or {PICKLED}")
_POINTER = b"version https://git-lfs"
_BATCH_TOKENS = 4096
_LENGTH_PENALTY = 0.6


def read(folder: Path, target: str | None = None) -> Trained:
    """Return the model of a folder; nothing in it is executed.

    Args:
        folder: the folder.
        target: the code of the language to write, for a model that writes several.

    Raises:
        UserError: a file is absent or corrupt, or simulmt's Transformer lacks a part of the model.
    """
    missing = [n for n in _NEEDED if not any((folder / x).is_file() for x in n.split(" or "))]
    if missing:
        raise UserError(
            f"from={folder} has no {', '.join(missing)}: give the folder of an OPUS-MT model, such "
            "as one that `hf download Helsinki-NLP/opus-mt-de-en --local-dir FOLDER` has filled; "
            "the same command completes a download"
        )
    small = [path for path in folder.iterdir() if path.is_file() and path.stat().st_size < 1000]
    pointers = [path.name for path in small if path.read_bytes().startswith(_POINTER)]
    if pointers:
        names = ", ".join(sorted(pointers))
        raise UserError(f"{folder} has pointers of Git LFS, not files: {names}; run `git lfs pull`")
    fields = read_fields(folder / CONFIG, ModelFields)
    described = read_fields(folder / TOKENIZER, TokenizerFields)
    options = fields.model_options()
    language = target or described.target_lang or "und"
    bleu = unspaced_language(language)
    writing = Writing(target=True, bleu=bleu) if bleu else WORDS
    subwords = _subwords(folder, fields, described, target).written(writing)
    name = re.sub(r"[^\w.+-]", "_", folder.resolve().name)[:60] or "marian"
    config = {
        "mechanism": dict(SOFT),
        "model": options,
        "data": {"name": name, "corpus": "unknown", "batch_tokens": _BATCH_TOKENS},
        "decoding": {"beam": _beam(folder, fields), "length_penalty": _LENGTH_PENALTY},
    }
    return Trained(
        path=folder,
        config=config,
        setup=Setup.of(config),
        manifest=Manifest(
            name=name,
            source_language=described.source_lang or "und",
            target_language=language,
            normalisation=NORMALISATION,
            subwords=SubwordsRecord(subwords.digest, len(subwords)),
            splits={},
            licence=licence(folder),
            writing=writing,
        ),
        needs={},
        subwords=subwords,
        weights=_weights(folder, options),
    )


def licence(folder: Path) -> str | None:
    """Return the licence that the card of a folder names at its top; None if there is none."""
    if not (folder / CARD).is_file():
        return None
    card = (folder / CARD).read_text(encoding="utf-8", errors="replace")
    front = re.match(r"---\n(.*?)\n---", card, re.DOTALL)
    named = front and re.search(r"^license:[ \t]*[\"']?([\w.+-]+)", front[1], re.MULTILINE)
    return named[1] if named else None


def _beam(folder: Path, fields: ModelFields) -> int | None:
    """Return the usual beam of a model; None if no file names it."""
    file = folder / GENERATION
    own = read_fields(file, GenerationFields).num_beams if file.exists() else None
    return own or fields.num_beams


def _subwords(
    folder: Path, fields: ModelFields, described: TokenizerFields, target: str | None
) -> MarianSubwords:
    """Return the subwords of a folder."""
    own = {name: (folder / name).read_bytes() for name in (marian.SOURCE, marian.TARGET, IDS)}
    pieces = marian.ids_of(own[IDS])
    found = (len(pieces), pieces.get(described.eos_token), pieces.get(described.pad_token))
    if found != (fields.vocab_size, fields.eos_token_id, fields.pad_token_id):
        raise UserError(
            f"{folder / IDS} has {found[0]:,} pieces, with eos and pad at {found[1:]}, but "
            f"{CONFIG} says {fields.vocab_size:,} and {fields.eos_token_id, fields.pad_token_id}: "
            "use files that all come from one model"
        )
    if described.unk_token not in pieces:
        raise UserError(f"{folder / IDS} has no {described.unk_token!r}: use another model")
    vocabulary = Vocabulary(
        len(pieces),
        pad=fields.pad_token_id,
        unk=pieces[described.unk_token],
        bos=fields.decoder_start_token_id,
        eos=fields.eos_token_id,
        opening=_opening(pieces, target),
    )
    return MarianSubwords({**own, marian.SPECIAL: marian.special_file(vocabulary)})


def _opening(pieces: Mapping[str, int], target: str | None) -> tuple[int, ...]:
    """Return the ids that open a source sentence; they name the language to write."""
    codes = marian.codes_of(pieces)
    if target is None and not codes:
        return ()
    if target not in codes:
        several = f"several languages; choose one of {', '.join(sorted(codes))}"
        known = several if codes else "one language; leave target out"
        raise UserError(f"target={target}: the model writes {known}")
    return (pieces[codes[target]],)


def _weights(folder: Path, options: Config) -> dict[str, Tensor]:
    """Return the parameters by their names here."""
    if (path := folder / WEIGHTS).exists():
        return from_marian(path, read_tensors(path, path.read_bytes()), options)
    weights = read_torch(path := folder / PICKLED)
    if not isinstance(weights, dict):
        raise UserError(f"{path} holds no named parameters: use another copy of the model")
    return from_marian(path, weights, options)
