"""Translations of plain lines by a model that reads the whole sentence first."""

from collections.abc import Callable, Sequence
from typing import TypeAlias

from jaxtyping import Bool, Int
from torch import Tensor

from simulmt.data.batches import ordered_batches
from simulmt.data.corpus import Split
from simulmt.data.encoded import EncodedSplit
from simulmt.data.tokenizer import Tokenizer
from simulmt.decoding.hypothesis import Hypothesis
from simulmt.models.model import Model

Decode: TypeAlias = Callable[[Model, Int[Tensor, "B S"], Bool[Tensor, "B S"]], Sequence[Hypothesis]]
"""Translates a batch: token ids, and True for real tokens."""


def translate_lines(
    model: Model,
    subwords: Tokenizer,
    lines: Sequence[str],
    decode: Decode,
    tokens: int,
    longest: int,
) -> list[str]:
    """Return a translation of each line, in the order of the lines.

    Args:
        model: in evaluation mode.
        subwords: the vocabulary of the model.
        lines: sentences, normalised.
        decode: translates a batch.
        tokens: largest number of source tokens in a batch, padding included.
        longest: the most tokens of a sentence, EOS included; the translation of a longer sentence
            is empty.
    """
    encoded = EncodedSplit.encode(Split(lines, [""] * len(lines)), subwords)
    translations, device = [""] * len(lines), model.begins.device
    for rows in ordered_batches(encoded.lengths, tokens):
        short = [row for row in rows if len(encoded.sources[row]) <= longest]
        if not short:
            continue
        batch = encoded.batch(short)
        hypotheses = decode(model, batch.source.to(device), batch.source_mask.to(device))
        for row, hypothesis in zip(short, hypotheses, strict=True):
            translations[row] = subwords.decode(hypothesis.tokens)
    return translations
