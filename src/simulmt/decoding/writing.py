"""What a word is: a run of characters between spaces, or, as in Chinese and Japanese, a character.

Inside simulmt a space separates any two words, so text of characters is spaced out where it comes
in and joined where it goes out. White space has no meaning in such text, and is left out.
"""

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class Writing:
    """How the text of a language pair is written and counted.

    Attributes:
        source: True if each character of the source is a word.
        target: True if each character of the target is a word.
        bleu: The tokeniser of sacreBLEU.
    """

    source: bool = False
    target: bool = False
    bleu: str = "13a"

    @property
    def sides(self) -> list[str]:
        """The sides whose words are characters: `source`, `target`."""
        return [side for side in ("source", "target") if getattr(self, side)]

    def fields(self, unit: str) -> tuple[str, ...]:
        """Return the fields of a signature: the unit, and that of the source if it is another."""
        source, target = ("char" if side else "word" for side in (self.source, self.target))
        if unit == "word":
            return (f"u:{target}", f"src:{source}")[: 1 + (source != target)]
        return (f"u:{target}", f"src:{unit}") if unit == "ms" and self.target else (f"u:{unit}",)

    def of_source(self, unit: str = "word") -> str:
        """Return what people call a unit of the source: a word, a character or a subword."""
        return "character" if unit == "word" and self.source else unit


WORDS = Writing()
"""White space separates the words of both sides."""


def words_of(text: str, characters: bool) -> list[str]:
    """Return the words of a text, which may be spaced out or not."""
    return [*"".join(text.split())] if characters else text.split()


def spaced(text: str, characters: bool) -> str:
    """Return a text with a space between any two words."""
    return " ".join("".join(text.split())) if characters else text


def as_written(words: Iterable[str], characters: bool) -> str:
    """Return the text of some words as people write it."""
    return ("" if characters else " ").join(words)


def unspaced(text: str, characters: bool) -> str:
    """Return a text of spaced words as people write it."""
    return text.replace(" ", "") if characters else text
