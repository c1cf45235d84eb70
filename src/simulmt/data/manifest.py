"""What data a model was made from, as plain JSON: no model is fed by another pipeline unseen."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping

from simulmt.data.corpus import Corpus, Split
from simulmt.data.subwords import Subwords
from simulmt.data.text import NORMALISATION
from simulmt.errors import UserError

_ABSENT = "nothing"


def manifest(
    corpus: Corpus, subwords: Subwords, splits: Iterable[str] | None = None
) -> dict[str, object]:
    """Describe the corpus and its subwords so that a later run can tell whether they are the same.

    Args:
        corpus: the corpus; no other splits of it than those named are read.
        subwords: the subwords of both languages.
        splits: names of the splits to describe; None for all.

    Returns:
        JSON values only: `name`, `source_language`, `target_language`, `normalisation`,
        `subwords` ({`digest`: SHA-256 in hex, `size`: pieces}) and `splits` ({split: {`pairs`,
        `dropped`, `source_sha256`, `target_sha256`}}).
    """
    chosen = corpus.splits if splits is None else splits
    return {
        "name": corpus.name,
        "source_language": corpus.source_language,
        "target_language": corpus.target_language,
        "normalisation": NORMALISATION,
        "subwords": {"digest": subwords.digest, "size": len(subwords)},
        "splits": {name: _describe(corpus.splits[name]) for name in chosen},
    }


def check_manifest(
    expected: Mapping[str, object], found: Mapping[str, object], splits: Iterable[str]
) -> None:
    """Refuse data that differ from those a model was made from.

    Compared are the languages, the normalisation, the subword model and the text of `splits`;
    the name of the corpus and the other splits may differ.

    Args:
        expected: the manifest kept with the model.
        found: the manifest of the data at hand.
        splits: names of the splits whose text must be the same, such as `["test"]`.

    Raises:
        UserError: names everything that differs, with both values, and what to do.
    """
    fields = [
        (("source_language",), "choose the data of the model's language pair"),
        (("target_language",), "choose the data of the model's language pair"),
        (("normalisation",), "use the version of simulmt that made the model, or train again"),
        (("subwords", "digest"), "train with the model's own (data.subwords.model=RUN)"),
    ]
    for split in splits:
        advice = f"use the {split} files the model was made with, or do not ask for {split}"
        fields += [(("splits", split, f"{side}_sha256"), advice) for side in ("source", "target")]
    differences: dict[str, list[str]] = {}
    for path, advice in fields:
        before, now = _look_up(expected, path), _look_up(found, path)
        if before != now or before == _ABSENT:
            text = f"{' '.join(path)} (model: {before}, here: {now})"
            differences.setdefault(advice, []).append(text)
    if differences:
        reasons = [f"{', '.join(names)}: {advice}" for advice, names in differences.items()]
        raise UserError("the data are not those of the model. " + "; ".join(reasons))


def _describe(split: Split) -> dict[str, object]:
    return {
        "pairs": len(split),
        "dropped": dict(split.dropped),
        "source_sha256": _digest(split.sources),
        "target_sha256": _digest(split.targets),
    }


def _digest(lines: Iterable[str]) -> str:
    """SHA-256 in hex of the lines in UTF-8, each ended by LF."""
    state = hashlib.sha256()
    for line in lines:
        state.update(line.encode("utf-8") + b"\n")
    return state.hexdigest()


def _look_up(tree: object, path: tuple[str, ...]) -> str:
    for key in path:
        tree = tree.get(key) if isinstance(tree, Mapping) else None
    return _ABSENT if tree is None else str(tree)
