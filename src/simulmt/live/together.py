"""Several translators read one word each."""

from collections.abc import Sequence

from simulmt.live.translator import Translator


def read_together(
    translators: Sequence[Translator], words: Sequence[str | None]
) -> list[list[str]]:
    """Let each translator read one word, and return the words that are newly decided of each.

    Args:
        translators: of any models and policies; each only once.
        words: a word for each translator; None ends its sentence.
    """
    return [
        translator.finish() if word is None else translator.read(word)
        for translator, word in zip(translators, words, strict=True)
    ]
