"""The Moses tokenizer as OmniSTEval uses it: word by word, without escapes.

No other file imports mosestokenizer, an optional package.
"""

import logging
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from importlib.util import find_spec

from simulmt.data.writing_options import unspaced_language
from simulmt.errors import UserError
from simulmt.scoring.resegment import Tokenize


@contextmanager
def moses(language: str | None) -> Iterator[Tokenize]:
    """Yield a function that returns the tokens of a word; a process of Perl finds them.

    Args:
        language: A code such as `de`; None, Chinese and Japanese leave words whole.

    Raises:
        UserError: the package or Perl is not installed, or Perl ends.
    """
    if language is None or unspaced_language(language):
        yield lambda word: [word]
        return
    if not (find_spec("mosestokenizer") and shutil.which("perl")):
        raise UserError(f'language={language} needs Perl and `pip install "simulmt[streams]"`')
    from mosestokenizer import MosesTokenizer  # noqa: PLC0415  (optional)

    logging.getLogger("mosestokenizer").setLevel(logging.WARNING)
    split = MosesTokenizer(language, no_escape=True)

    def ask(word: str) -> list[str]:
        try:
            return list(split(word))
        except BrokenPipeError:
            return []

    @cache
    def tokens(word: str) -> list[str]:
        if not (found := ask(word)) and not ask("a"):
            raise UserError(
                f"language={language}: Perl with the Moses tokenizer has ended: install all of "
                "perl, not only perl-base, or, if it was killed, repeat the command"
            )
        return found or [word]

    try:
        tokens("a")
        yield tokens
    finally:
        with suppress(BrokenPipeError):  # what Perl has not read
            split.close()
