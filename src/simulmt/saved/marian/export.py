"""A trained offline Transformer as a folder that transformers loads as `MarianMTModel`."""

import json
from collections.abc import Mapping
from pathlib import Path

from safetensors.torch import save

from simulmt import __version__
from simulmt.data.marian import IDS, SOURCE, SPECIAL, TARGET
from simulmt.data.subwords import SUBWORDS
from simulmt.data.tokenizer import Tokenizer
from simulmt.errors import UserError
from simulmt.files.run_directory import CONFIG, WEIGHTS
from simulmt.models.transformer import Transformer
from simulmt.models.vocabulary import Vocabulary
from simulmt.options import Config, flat_options
from simulmt.saved.exported import CARD, new_folder
from simulmt.saved.marian.config import OPTIONS, ModelFields
from simulmt.saved.marian.folder import GENERATION, TOKENIZER
from simulmt.saved.marian.weights import to_marian
from simulmt.saved.trained import Trained
from simulmt.system.disk import write_json

_OFFERED: Mapping[str, tuple[object, ...]] = {
    "mechanism.schedule": ("full_sentence",),
    "mechanism.span": ("lookback",),
    "mechanism.score": ("usual", "scaled_dot_product"),
    "mechanism.heads": ("usual", "all"),
    "model.name": ("transformer",),
    "model.norm": ("post",),
    "model.average_embedding": (False,),
    "model.encoder": ("bidirectional", "auto"),
    "model.boundaries": (False,),
    "data.characters": ([],),
}
"""The values of options that the format can hold."""
_POSITIONS, _LONGEST = 1024, 512


def write(trained: Trained, folder: Path) -> None:
    """Write a trained model into a new or empty folder, whole or not at all.

    Raises:
        UserError: Marian's format lacks a part of the model, or the folder is not empty.
    """
    chosen = flat_options(trained.config)
    for name, values in _OFFERED.items():
        if name == "data.characters" and trained.subwords.vocabulary.whole:
            continue  # the pieces are those of an imported model
        if (value := chosen.get(name, values[0])) not in values:
            raise UserError(
                f"format=marian, but the model has {name}={value} and Marian's format has only "
                f"{values[0]}: leave out format, or train with {name}={values[0]}"
            )
    options, vocabulary = {"activation": "relu", **trained.setup.model}, trained.subwords.vocabulary
    with new_folder(folder) as unfinished:
        weights = save(to_marian(trained.weights, options), metadata={"format": "pt"})
        (unfinished / WEIGHTS).write_bytes(weights)
        write_json(unfinished / CONFIG, _config(options, vocabulary))
        write_json(unfinished / GENERATION, _generation(trained.setup.decoding, vocabulary))
        write_json(unfinished / TOKENIZER, _tokenizer(trained))
        for name, content in _subword_files(trained.subwords).items():
            (unfinished / name).write_bytes(content)
        (unfinished / CARD).write_text(_card(trained), encoding="utf-8", newline="\n")


def _config(options: Config, vocabulary: Vocabulary) -> Config:
    """Return the fields of `config.json`."""
    fields = ModelFields(
        **{theirs: options[ours] for ours, theirs in OPTIONS.items()},
        decoder_attention_heads=options["heads"],
        scale_embedding=True,
        vocab_size=vocabulary.size,
        pad_token_id=vocabulary.pad,
        decoder_start_token_id=vocabulary.bos,
        eos_token_id=vocabulary.eos,
    )
    return {
        "architectures": ["MarianMTModel"],
        **fields.model_dump(exclude_none=True),
        "decoder_ffn_dim": options["ffn"],
        "decoder_vocab_size": vocabulary.size,
        "max_position_embeddings": _POSITIONS,
        "forced_eos_token_id": vocabulary.eos,
    }


def _generation(decoding: Config, vocabulary: Vocabulary) -> Config:
    """Return the fields of `generation_config.json`; PAD and BOS are barred, as in simulmt."""
    barred = sorted({vocabulary.pad, vocabulary.bos})
    return {
        "bad_words_ids": [[token] for token in barred],
        "decoder_start_token_id": vocabulary.bos,
        "eos_token_id": vocabulary.eos,
        "forced_eos_token_id": vocabulary.eos,
        "pad_token_id": vocabulary.pad,
        "max_length": _LONGEST,
        "num_beams": decoding.get("beam") or Transformer.usual_beam,
    }


def _tokenizer(trained: Trained) -> Config:
    """Return the fields of `tokenizer_config.json`."""
    vocabulary = trained.subwords.vocabulary
    special = trained.subwords.pieces([vocabulary.pad, vocabulary.unk, vocabulary.eos])
    return {
        "tokenizer_class": "MarianTokenizer",
        "separate_vocabs": False,
        "source_lang": trained.manifest.source_language,
        "target_lang": trained.manifest.target_language,
        "model_max_length": _LONGEST,
        **dict(zip(("pad_token", "unk_token", "eos_token"), special, strict=True)),
    }


def _subword_files(subwords: Tokenizer) -> Mapping[str, bytes]:
    """Return the SentencePiece models of both languages, and their ids."""
    own = subwords.files
    if SUBWORDS not in own:
        return {name: content for name, content in own.items() if name != SPECIAL}
    pieces = subwords.pieces(range(len(subwords)))
    ids = json.dumps({piece: number for number, piece in enumerate(pieces)}, ensure_ascii=False)
    return {SOURCE: own[SUBWORDS], TARGET: own[SUBWORDS], IDS: ids.encode()}


def _card(trained: Trained) -> str:
    """Return a card that explains how to load the model."""
    vocabulary, manifest = trained.subwords.vocabulary, trained.manifest
    opening = "".join(f"{piece} " for piece in trained.subwords.pieces(vocabulary.opening))
    front = ["---", f"license: {manifest.licence}", "---", ""] if manifest.licence else []
    return "\n".join([
        *front, f"# {manifest.pair}, of simulmt {__version__}", "", "```python",
        "from transformers import MarianMTModel, MarianTokenizer", "",
        'model = MarianMTModel.from_pretrained("THIS_FOLDER")',
        'tokenizer = MarianTokenizer.from_pretrained("THIS_FOLDER")',
        f'source = tokenizer("{opening}SENTENCE", return_tensors="pt")',
        "print(tokenizer.batch_decode(model.generate(**source), skip_special_tokens=True))",
        "```", "",
    ])  # fmt: skip
