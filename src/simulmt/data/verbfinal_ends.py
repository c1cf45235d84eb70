"""Where a sentence of the built-in corpus may end, if the stream has no punctuation marks.

"Anna kauft das Buch im Garten": the sentence may be over, or it was over after "Buch", and the next
one begins with "im Garten". The word that follows decides: a finite verb, or any other. This file
recognises the German side of the grammar (`german` in `verbfinal.tsv`), for the oracle of a stream.
The rules ignore agreement, which never decides where a sentence ends.
"""

import sys
from collections import defaultdict
from collections.abc import Sequence
from functools import cache

from simulmt.data import verbfinal_lexicon as lexicon

OPEN = sys.maxsize
"""The end of a sentence that goes on after the last known word."""


@cache
def rules() -> dict[str, dict[str, list[list[str]]]]:
    """The alternatives of each symbol by their first word, "" if they begin with a symbol."""
    texts = defaultdict[str, list[str]](list)
    for name, row in lexicon.ROWS:
        for column, text in enumerate(row):
            texts[f"{name}.{column}"].append(text.lower().replace("|", " "))
    texts |= {row[0]: row[1].split(" / ") for name, row in lexicon.ROWS if name == "german"}
    texts["DETERMINER"] = [form for forms, _ in lexicon.DETERMINERS.values() for form in forms]
    endings = "e", "er", "es", "en"
    texts["ADJECTIVE"] = [each + end for each, _ in lexicon.ADJECTIVES for end in endings]
    texts["PARTICIPLE"] = [verb.perfect for verb in lexicon.VERBS]
    texts["INFINITIVE"] = [verb.infinitive for verb in lexicon.VERBS]
    texts["FINAL"] = [v.particle + s for v in lexicon.VERBS for s in (v.singular, v.plural)]
    found = {name: defaultdict[str, list[list[str]]](list) for name in texts}
    for name, parts in ((n, text.split()) for n, many in texts.items() for text in many if text):
        found[name]["" if parts[0].strip("?") in texts else parts[0]].append(parts)
    return {name: dict(alternatives) for name, alternatives in found.items()}


def sentence_ends(words: Sequence[str], several: bool = False) -> set[int]:
    """The places where the first sentence of a stream may end, by what is known of the stream.

    Args:
        words: the first words of the stream, without marks.
        several: True if "und" and "aber" join clauses.

    Returns:
        The numbers of words before these places; `OPEN` if it may end after the last of `words`.
    """
    known, grammar = [word.lower() for word in words], rules()
    sentence = "LONG_SENTENCE" if several else "SENTENCE"

    @cache
    def after(symbol: str, start: int) -> frozenset[int]:
        """The places after a symbol that begins at `start`."""
        if symbol.endswith("?"):
            return after(symbol[:-1], start) | {start}
        if start >= len(known):
            return frozenset({OPEN})
        if symbol not in grammar:
            return frozenset({start + 1} if known[start] == symbol else ())
        found, rule = frozenset[int](), grammar[symbol]
        for alternative in (*rule.get("", ()), *rule.get(known[start], ())):
            places = frozenset({start})
            for part in alternative:
                places = frozenset().union(*(after(part, place) for place in places))
            found |= places
        return found

    return {end for end in after(sentence, 0) if after(f"{sentence}S?", end) & {OPEN, len(known)}}
