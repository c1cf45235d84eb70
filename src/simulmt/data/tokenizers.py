"""The kinds of subwords, told apart by their files."""

from collections.abc import Mapping
from pathlib import Path

from simulmt.data.marian import FILES, MarianSubwords
from simulmt.data.subwords import SUBWORDS, Subwords
from simulmt.data.tokenizer import Tokenizer


def tokenizer_of(files: Mapping[str, bytes]) -> Tokenizer:
    """Return the subwords that some files hold.

    Raises:
        UserError: a file is missing or damaged.
    """
    return Subwords(files[SUBWORDS]) if SUBWORDS in files else MarianSubwords(files)


def load_tokenizer(folder: Path) -> Tokenizer:
    """Return the subwords that the files of a folder hold.

    Raises:
        UserError: a file is missing or damaged.
    """
    if any((folder / name).exists() for name in FILES):
        return MarianSubwords.load(folder)
    return Subwords.load(folder / SUBWORDS)
