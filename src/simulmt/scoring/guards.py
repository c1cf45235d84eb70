"""Warnings about scored text that holds subword marks, escapes or special tokens.

References that are still segmented or escaped cost ten BLEU without any error. The patterns do not
match ordinary text: `AT&T`, `a@@b.org` and `x < s` give no warning.
"""

import re
from collections.abc import Iterator, Sequence
from html.entities import html5

from simulmt.data.tokenizer import UNKNOWN
from simulmt.decoding.instance import Instance
from simulmt.run_directory import INSTANCES

_SUBWORDS = re.compile(r"\S*[^\s@]@@(?!\S)|\S*▁\S*")
_ESCAPE = re.compile(r"&(?:#\d+|#[xX][0-9a-fA-F]+|[A-Za-z][A-Za-z0-9]*);")
_SPECIAL = re.compile(r"</?(?:s|unk|eos|bos|pad)>", re.IGNORECASE)
_REMEDY = {
    "subword marks": "score whole words: undo the segmentation in the text files, and decode again",
    "HTML escapes": "unescape the text files (html.unescape in Python), and train and decode again",
    "special tokens": "take them out of the text files, which hold sentences alone",
    "unknown characters": "let the subwords cover all characters (data.subwords), and train again",
}


def residue(instances: Sequence[Instance], most: int = 5) -> list[str]:
    """Return warnings about residue of the processing in scored text.

    `⁇`, which SentencePiece writes for an unknown character, counts in the predictions alone: other
    text may contain it.

    Args:
        instances: In any order. Line 1 of the log is the one with the lowest index.
        most: The most warnings; one more gives the number that is left out.

    Returns:
        One line for each field and kind of residue: its first place, how many other sentences
        have it, and the remedy.
    """
    places: dict[tuple[str, str], list[str]] = {}
    ordered = sorted(instances, key=lambda instance: instance.index)
    for line, instance in enumerate(ordered, start=1):
        where = f"in sentence {instance.index + 1} (line {line} of {INSTANCES})"
        for field in ("prediction", "reference", "source"):
            for kind, text in _first_of_each_kind(getattr(instance, field), field):
                places.setdefault((field, kind), []).append(f"{text!r} {where}")
    warnings = []
    for (field, kind), (first, *others) in places.items():
        more = f", and in {len(others)} more" if others else ""
        warnings.append(f"{kind} in the {field}: {first}{more}; {_REMEDY[kind]}")
    rest = len(warnings) - most
    return warnings[:most] + ([f"and {rest} more such warnings"] if rest > 0 else [])


def _first_of_each_kind(text: str, field: str) -> Iterator[tuple[str, str]]:
    """Return each kind of residue in the text of a field, with its first occurrence."""
    marks = {
        "subword marks": _SUBWORDS.search(text),
        "HTML escapes": next(filter(_is_escape, _ESCAPE.finditer(text)), None),
        "special tokens": _SPECIAL.search(text),
        "unknown characters": re.search(UNKNOWN, text) if field == "prediction" else None,
    }
    return ((kind, mark[0]) for kind, mark in marks.items() if mark is not None)


def _is_escape(match: re.Match[str]) -> bool:
    """Return whether HTML knows the name or number: `&apos;`, but not `R&D;`."""
    return match[0].startswith("&#") or match[0][1:] in html5
