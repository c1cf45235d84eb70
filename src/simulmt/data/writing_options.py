"""Which sides of a text have characters as words, and how BLEU splits the target."""

import re
from dataclasses import dataclass
from typing import Literal, TypeAlias

from simulmt.decoding.writing import Writing

BleuTokens: TypeAlias = Literal["13a", "intl", "zh", "ja-mecab", "char", "none"]
"""Tokenisers of sacreBLEU that need no network."""
_BY_LANGUAGE: dict[str, BleuTokens] = dict.fromkeys(("zh", "zho", "cmn"), "zh")
_BY_LANGUAGE |= dict.fromkeys(("ja", "jpn", "jap"), "ja-mecab")


def unspaced_language(code: str) -> BleuTokens | None:
    """Return the tokeniser of Chinese or Japanese, by a code such as `zh-CN`; else None."""
    language, *_ = re.split("[-_]", code)
    return _BY_LANGUAGE.get(language)


@dataclass(frozen=True)
class WritingOptions:
    """Options that say what a word is.

    Attributes:
        characters: The sides on which each character is a word.
        bleu: The tokeniser of sacreBLEU; None for that of Chinese or Japanese, and otherwise for
            13a, or `char` if the target is in characters.
    """

    characters: tuple[Literal["source", "target"], ...] = ()
    bleu: BleuTokens | None = None

    def of(self, target: str) -> Writing:
        """Return how text is written and counted, with the code of its target language."""
        source, characters = (side in self.characters for side in ("source", "target"))
        usual = unspaced_language(target) or ("char" if characters else "13a")
        return Writing(source, characters, self.bleu or usual)
