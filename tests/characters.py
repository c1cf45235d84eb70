"""Made-up text without spaces: the words of the built-in data, as characters."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from simulmt.data.verbfinal import verbfinal

SIZES = {"train": 300, "valid": 9, "test": 11}


def in_characters(lines: Sequence[str], first: int) -> list[str]:
    """Lines without spaces, whose words are one or two of 40 characters from `chr(first)` on."""
    words = sorted({word for line in lines for word in line.split()})
    signs = {
        word: chr(first + n % 20) + ("" if n % 3 else chr(first + 20 + n // 20))
        for n, word in enumerate(words)
    }
    return ["".join(map(signs.__getitem__, line.split())) for line in lines]


def write_corpus(folder: Path, target: bool = True, source: bool = True) -> Path:
    """Files of made-up zh and ja; a side that is not in characters is as the data have it."""
    corpus = verbfinal(1, *SIZES.values())
    for language, name, characters in (("zh", "sources", source), ("ja", "targets", target)):
        splits = {split: getattr(corpus.splits[split], name) for split in SIZES}
        lines = [line for split in splits.values() for line in split]
        if characters:
            lines = in_characters(lines, 0x4E00 if name == "sources" else 0x6E00)
        for split, size in SIZES.items():
            text = "".join(f"{line}\n" for line in lines[:size])
            (folder / f"{split}.{language}").write_text(text, encoding="utf-8")
            del lines[:size]
    return folder


def options(folder: Path, *sides: str) -> list[str]:
    """The options of a small run on such files."""
    where = ["data=text", f"data.root={folder}", "data.source=zh", "data.target=ja"]
    chosen = [f"data.characters=[{','.join(sides)}]", "data.subwords.size=120", "data.bleu=char"]
    stems = [f"data.{split}={split}" for split in SIZES]
    return [*where, *stems, *chosen, "data.batch_tokens=600"]
