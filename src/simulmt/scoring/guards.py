"""Warnings about text that holds subword marks, escapes or special tokens, or no spaces.

References that are still segmented or escaped cost ten BLEU without any error. The patterns do not
match ordinary text: `AT&T`, `a@@b.org` and `x < s` give no warning. Where text has no spaces, a
sentence counts as one word, and latency in words looks low. SentencePiece's marks never get here:
`simulmt.data.reader` warns of them.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from html.entities import html5
from unicodedata import east_asian_width

from simulmt.data.tokenizer import UNKNOWN
from simulmt.decoding.instance import Instance, texts_of
from simulmt.files.run_directory import INSTANCES

_NAMED = "|".join(name for name in html5 if name.endswith(";"))  # `apos;`, but not `D;`
_AGAIN = "in the text files, and train and decode again"
_KINDS = {
    "subword marks": (
        r"\S*[^\s@]@@(?![^\s\u2e80-\uffdc])",
        f"undo the segmentation {_AGAIN}",
    ),
    "HTML escapes": (rf"&(?:#\d+;|#[xX][0-9a-fA-F]+;|{_NAMED})", f"call html.unescape {_AGAIN}"),
    "special tokens": (r"(?i)</?(?:s|unk|eos|bos|pad)>", f"remove them {_AGAIN}"),
    "unknown characters": (UNKNOWN, "let data.subwords cover all characters, and retrain"),
}
_MOST = 5
_LONG = 10  # letters per word; 4 to 8 are usual. A Chinese or Japanese letter counts twice


def residue(instances: Sequence[Instance]) -> list[str]:
    """Return warnings about residue of the processing in scored text.

    `⁇`, which SentencePiece writes for an unknown character, counts in the predictions alone: other
    text may contain it.

    Args:
        instances: In any order. Line 1 of the log is the one with the lowest index.

    Returns:
        One line for each field and kind of residue: its first place, how many other sentences
        have it, and the remedy. After `_MOST` lines, one gives the number that is left out.
    """
    places: dict[tuple[str, str], list[str]] = {}
    ordered = sorted(instances, key=lambda instance: instance.index)
    for line, instance in enumerate(ordered, start=1):
        where = f"in sentence {instance.index + 1} (line {line} of {INSTANCES})"
        source, reference, prediction = texts_of(instance)
        texts = {"prediction": prediction, "reference": reference, "source": source}
        for field, text in texts.items():
            for kind, (pattern, _) in _KINDS.items():
                mark = re.search(pattern, text)
                if mark and (field == "prediction" or kind != "unknown characters"):
                    places.setdefault((field, kind), []).append(f"{mark[0]!r} {where}")
    warnings = []
    for (field, kind), (first, *others) in places.items():
        more = f", and in {len(others)} more" if others else ""
        warnings.append(f"{kind} in the {field}: {first}{more}; {_KINDS[kind][1]}")
    rest = len(warnings) - _MOST
    return warnings[:_MOST] + ([f"and {rest} more such warnings"] if rest > 0 else [])


def unspaced_sides(texts: Mapping[str, Iterable[str]]) -> list[str]:
    """Return a warning for each side, `source` or `target`, that seems to have no spaces."""
    warnings = []
    for side, lines in texts.items():
        words = " ".join(lines).split()
        letters = [*filter(str.isalpha, "".join(words))]
        wide = sum(east_asian_width(letter) in "FW" for letter in letters)
        if len(letters) + wide > _LONG * len(words):
            mean = len(letters) / len(words)
            warnings.append(
                f"the {side} has {mean:.0f} letters per word: if it is written without spaces, "
                f"figures in words mean little without data.characters=[{side}] "
                "(docs/characters.md)"
            )
    return warnings
