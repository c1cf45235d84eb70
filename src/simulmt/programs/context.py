"""What precedes each sentence, from a file, for `evaluate.py` with `context=`."""

from pathlib import Path

from simulmt.data.text import decoded
from simulmt.data.tokenizer import Tokenizer
from simulmt.decoding.history import Before
from simulmt.errors import UserError
from simulmt.system.disk import raw_lines


def read_context(path: Path, sentences: int, subwords: Tokenizer) -> list[list[Before]]:
    """Return what precedes each sentence of a text.

    Args:
        path: A file with a line for each sentence, plain, `.gz` or `.zst`: the parts that precede
            it, such as sentences or names, separated by tabs, the newest last. A part is `SOURCE`
            or `SOURCE ||| TRANSLATION`.
        sentences: The number of sentences of the text.
        subwords: The model's vocabulary.

    Raises:
        UserError: the file cannot be read, or does not have as many lines as the text.
    """
    found = []
    for number, raw in enumerate(raw_lines(path), 1):
        parts = filter(str.strip, decoded(raw, path, number).split("\t"))
        pairs = [map(str.strip, part.partition("|||")[::2]) for part in parts]
        encode = subwords.encode_target
        found.append([Before(subwords.encode(x), encode(y) if y else None) for x, y in pairs])
    if len(found) != sentences:
        raise UserError(
            f"context={path} has {len(found):,} lines but the text has {sentences:,} sentences: "
            "give a line for each sentence, empty for nothing"
        )
    return found
