"""The kinds of subwords, told apart by their files."""

from collections.abc import Mapping
from pathlib import Path

from simulmt.data.marian import FILES, IDS, MarianSubwords
from simulmt.data.subwords import SUBWORDS, Subwords
from simulmt.data.tokenizer import Tokenizer


def tokenizer_of(files: Mapping[str, bytes]) -> Tokenizer:
    """Return the subwords that some files hold; UserError if there are none."""
    return Subwords(files[SUBWORDS]) if SUBWORDS in files else MarianSubwords(files)


def load_tokenizer(folder: Path) -> Tokenizer:
    """Return the subwords that the files of a folder hold; UserError if there are none."""
    names = FILES if (folder / IDS).exists() else (SUBWORDS,)
    return tokenizer_of({name: (folder / name).read_bytes() for name in names})
