"""Training SentencePiece, and a cache of models: the same text and options give the same bytes."""

import hashlib
import io
import re
from collections.abc import Iterable
from itertools import chain
from pathlib import Path
from typing import Any, TypeAlias

import sentencepiece

from simulmt.data.store import digest
from simulmt.data.text import NORMALISATION
from simulmt.errors import UserError
from simulmt.lock import alone
from simulmt.run_directory import replacing

Options: TypeAlias = dict[str, Any]
"""Keyword arguments of SentencePiece's trainer."""


def train_or_reuse(sentences: Iterable[str], options: Options, cache: Path, text: str) -> bytes:
    """The model in the cache, else a new one; processes that start together train once.

    An entry of the cache is the SHA-256 of a model and the model.

    Args:
        sentences: the text, which is read only if there is no such model.
        options: what SentencePiece is told.
        cache: the folder of the models.
        text: the digest of the sentences.

    Raises:
        UserError: as for `train_model`.
        OSError: the cache cannot be used.
    """
    key = digest([options, NORMALISATION, sentencepiece.__version__, text])
    entry = cache / f"{key}.subwords"
    model = _read(entry)
    if model is None:
        cache.mkdir(parents=True, exist_ok=True)
        with alone(entry):
            model = _read(entry) or train_model(sentences, options)
            with replacing(entry) as unfinished:
                unfinished.write_bytes(hashlib.sha256(model).digest() + model)
    return model


def train_model(sentences: Iterable[str], options: Options) -> bytes:
    """A serialised model.

    Raises:
        UserError: the text is too small or too large for the options, or there is none.
    """
    text = filter(str.strip, sentences)
    first = next(text, None)
    if first is None:
        raise UserError("no text to train subwords on: give at least one non-empty sentence")
    model = io.BytesIO()
    train = sentencepiece.SentencePieceTrainer.train
    try:
        train(sentence_iterator=chain([first], text), model_writer=model, **options)
    except RuntimeError as error:
        raise UserError(_explain(str(error), options)) from error
    return model.getvalue()


def _read(entry: Path) -> bytes | None:
    """The model in an entry of the cache; None if it is absent or damaged."""
    content = entry.read_bytes() if entry.is_file() else b""
    checksum, model = content[:32], content[32:]
    return model if model and hashlib.sha256(model).digest() == checksum else None


def _explain(message: str, options: Options) -> str:
    """SentencePiece's error message with the limit and the remedy."""
    choice = f"subword size={options['vocab_size']} with {options['model_type']}"
    if limit := re.search(r"Please set it to a value <= (\d+)", message):
        return f"{choice} is too large for this text: set it to {limit[1]} or less, or add text"
    if limit := re.search(r"smaller than required_chars. \d+ vs (\d+)", message):
        coverage = f"lower character_coverage (now {options['character_coverage']})"
        return f"{choice} is too small for this text: set it to {limit[1]} or more, or {coverage}"
    return f"{choice}: SentencePiece refuses ({message.strip()}); choose another, or check the text"
