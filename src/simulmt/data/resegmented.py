"""Documents split into sentences without the model: at punctuation, or as in a file."""

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from simulmt.data.corpus import Split
from simulmt.data.text import text_lines
from simulmt.decoding.writing import words_of
from simulmt.errors import UserError

_MARKS = (".", "!", "?", "。", "！", "？", "؟")
_LEAST, _MOST = 20, 40


def at_punctuation(words: Sequence[str]) -> list[list[str]]:
    """Words cut after `.`, `!` or `?` once there are 20, and after 40 in any case.

    This is the rule of the shared task's baselines (IWSLT 2025 and 2026). It also cuts after the
    same marks of Chinese, Japanese and Arabic.
    """
    sentences: list[list[str]] = [[]]
    for word in words:
        sentences[-1].append(word)
        length = len(sentences[-1])
        if length >= _MOST or (length >= _LEAST and word.endswith(_MARKS)):
            sentences.append([])
    return [sentence for sentence in sentences if sentence]


def resegmented(split: Split, cut: Callable[[Sequence[str]], Iterable[Sequence[str]]]) -> Split:
    """Return the documents of a split with other sentences, whose references are empty."""
    sources, documents = list[str](), dict[str, range]()
    for name, places in split.documents.items():
        start = len(sources)
        words = [word for place in places for word in split.sources[place].split()]
        sources += map(" ".join, cut(words))
        documents[name] = range(start, len(sources))
    return Split(sources, [""] * len(sources), documents=documents)


def as_in(split: Split, path: Path, characters: bool) -> Split:
    """Return the documents of a split with the lines of a file as sentences.

    Args:
        split: the documents.
        path: the file, which has the words of all documents in their order.
        characters: True if each character is a word.

    Raises:
        UserError: the file does not have the words of the documents.
    """
    lines = (words for line in text_lines(path) if (words := words_of(line, characters)))

    def cut(words: Sequence[str]) -> list[list[str]]:
        sentences, place = list[list[str]](), 0
        while place < len(words):
            sentence = next(lines, [])
            if not sentence or [*words[place : place + len(sentence)]] != sentence:
                raise UserError(
                    f"sentences={path}: it must have the words of the source, and a new line after "
                    f"each document; it differs at {' '.join(words[place : place + 8])!r}"
                )
            sentences.append(sentence)
            place += len(sentence)
        return sentences

    found = resegmented(split, cut)
    if rest := next(lines, None):
        raise UserError(f"sentences={path} continues after the source, at {' '.join(rest)!r:.80}")
    return found
