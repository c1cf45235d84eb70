"""Warnings about scored text that holds subword marks, escapes or special tokens.

References that are still segmented or escaped cost ten BLEU without any error. The patterns do not
match ordinary text: `AT&T`, `a@@b.org` and `x < s` give no warning.
"""

import re
from collections.abc import Sequence
from html.entities import html5

from simulmt.data.tokenizer import UNKNOWN
from simulmt.decoding.instance import Instance, texts_of
from simulmt.files.run_directory import INSTANCES

_NAMED = "|".join(name for name in html5 if name.endswith(";"))  # `apos;`, but not `D;`
_KINDS = {
    "subword marks": re.compile(r"\S*[^\s@]@@(?![^\s\u2e80-\uffdc])|\S*▁\S*"),
    "HTML escapes": re.compile(rf"&(?:#\d+;|#[xX][0-9a-fA-F]+;|{_NAMED})"),
    "special tokens": re.compile(r"</?(?:s|unk|eos|bos|pad)>", re.IGNORECASE),
    "unknown characters": re.compile(UNKNOWN),
}
_REMEDY = {
    "subword marks": "undo the segmentation in the text files, and train and decode again",
    "HTML escapes": "unescape the text files (html.unescape in Python), and train and decode again",
    "special tokens": "remove them from the text files, and train and decode again",
    "unknown characters": "let the subwords cover all characters (data.subwords), and retrain",
}
_MOST = 5


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
            for kind, pattern in _KINDS.items():
                mark = pattern.search(text)
                if mark and (field == "prediction" or kind != "unknown characters"):
                    places.setdefault((field, kind), []).append(f"{mark[0]!r} {where}")
    warnings = []
    for (field, kind), (first, *others) in places.items():
        more = f", and in {len(others)} more" if others else ""
        warnings.append(f"{kind} in the {field}: {first}{more}; {_REMEDY[kind]}")
    rest = len(warnings) - _MOST
    return warnings[:_MOST] + ([f"and {rest} more such warnings"] if rest > 0 else [])
