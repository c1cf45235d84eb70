"""The manifest of a model: which data made it, as plain JSON.

Whoever goes on with a model compares its manifest with that of the data at hand.
"""

from collections.abc import Iterable, Mapping

from simulmt.data.corpus import Corpus, Split
from simulmt.data.text import NORMALISATION
from simulmt.data.tokenizer import Tokenizer
from simulmt.errors import UserError
from simulmt.options import Config, flat_options


def manifest(
    corpus: Corpus, subwords: Tokenizer, splits: Iterable[str] | None = None
) -> dict[str, object]:
    """The manifest of a corpus and its subwords.

    Args:
        corpus: the corpus; only the splits that `splits` names are read.
        subwords: the subwords of both languages.
        splits: names of the splits to describe; None for all.

    Returns:
        JSON values only: `name`, `source_language`, `target_language`, `normalisation`,
        `subwords` ({`digest`: SHA-256 in hex, `size`: pieces}) and `splits` ({split: {`pairs`,
        `dropped`, `source_sha256`, `target_sha256`}}).
    """
    chosen = {name: corpus.splits[name] for name in (corpus.splits if splits is None else splits)}
    return {
        "name": corpus.name,
        "source_language": corpus.source_language,
        "target_language": corpus.target_language,
        "normalisation": NORMALISATION,
        "subwords": {"digest": subwords.digest, "size": len(subwords)},
        "splits": {
            name: {
                "pairs": len(split),
                "dropped": dict(split.dropped),
                "source_sha256": split.sha256[0],
                "target_sha256": split.sha256[1],
            }
            for name, split in chosen.items()
        },
    }


def check_manifest(
    expected: Mapping[str, object], present: Mapping[str, object], splits: Iterable[str]
) -> None:
    """Reject data that differ from the data that a model was made from.

    The languages, the normalisation, the subword model and the text of `splits` must be the
    same; the name of the corpus and the other splits may differ.

    Args:
        expected: the manifest kept with the model.
        present: the manifest of the data at hand.
        splits: names of the splits whose text must be the same, such as `["test"]`.

    Raises:
        UserError: names each difference, with both values and a remedy.
    """
    remedies = {
        "source_language": "choose the data of the model's language pair",
        "target_language": "choose the data of the model's language pair",
        "normalisation": "use the version of simulmt that made the model, or train again",
        "subwords.digest": "train with the model's own (data.subwords.model=RUN)",
    }
    for split in splits:
        remedy = f"use the {split} files the model was made with, or do not ask for {split}"
        remedies |= {f"splits.{split}.{side}_sha256": remedy for side in ("source", "target")}
    model, here = flat_options(expected), flat_options(present)
    differences = [
        f"{key.replace('.', ' ')} (model: {model.get(key) or 'nothing'}, "
        f"here: {here.get(key) or 'nothing'}): {remedy}"
        for key, remedy in remedies.items()
        if model.get(key) is None or model.get(key) != here.get(key)
    ]
    if differences:
        raise UserError(f"the data are not those of the model. {'; '.join(differences)}")


def same_text(split: Split, described: Config, names: Iterable[str]) -> list[str]:
    """Return which of the named splits of a manifest have the same source text as a split."""
    digest, there = split.sha256[0], flat_options(described)
    return [name for name in names if there.get(f"splits.{name}.source_sha256") == digest]
