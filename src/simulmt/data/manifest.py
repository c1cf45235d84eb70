"""The manifest of a model: the data it was trained on, as plain JSON.

A program that continues with a model compares its manifest with that of the data at hand.
"""

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass

from simulmt.data.corpus import Corpus
from simulmt.data.text import NORMALISATION
from simulmt.data.tokenizer import Tokenizer
from simulmt.decoding.writing import WORDS, Writing
from simulmt.errors import UserError
from simulmt.options import flat_options


@dataclass(frozen=True)
class SubwordsRecord:
    """The SHA-256 of the subwords in hex, and their number."""

    digest: str
    size: int


@dataclass(frozen=True)
class SplitRecord:
    """The pairs of a split, those dropped by reason, and the SHA-256 of both sides in hex."""

    pairs: int
    dropped: Mapping[str, int]
    source_sha256: str
    target_sha256: str


@dataclass(frozen=True)
class Manifest:
    """The data of a model; that of an imported model has no splits, and may have a licence."""

    name: str
    source_language: str
    target_language: str
    normalisation: str
    subwords: SubwordsRecord
    splits: Mapping[str, SplitRecord]
    licence: str | None = None
    writing: Writing = WORDS

    @property
    def pair(self) -> str:
        """Both languages, such as `de-en`."""
        return f"{self.source_language}-{self.target_language}"


def manifest(corpus: Corpus, subwords: Tokenizer, splits: Iterable[str] | None = None) -> Manifest:
    """The manifest of a corpus and its subwords.

    Args:
        corpus: the corpus; only the splits that `splits` names are read.
        subwords: the subwords of both languages.
        splits: names of the splits to describe; None for all.
    """
    chosen = {name: corpus.splits[name] for name in (corpus.splits if splits is None else splits)}
    return Manifest(
        corpus.name,
        corpus.source_language,
        corpus.target_language,
        NORMALISATION,
        SubwordsRecord(subwords.digest, len(subwords)),
        {n: SplitRecord(len(s), dict(s.dropped), *s.sha256) for n, s in chosen.items()},
        writing=subwords.writing,
    )


def check_manifest(expected: Manifest, present: Manifest, splits: Iterable[str]) -> None:
    """Check that data are those of a model.

    The languages, what a word is, the normalisation, the subword model and the text of `splits`
    must be the same; the name of the corpus and the other splits may differ.

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
        "writing.source": "set data.characters as in the model's training",
        "writing.target": "set data.characters as in the model's training",
        "normalisation": "use the version of simulmt that trained the model, or retrain",
        "subwords.digest": "train with the model's subwords (data.subwords.model=RUN)",
    }
    for split in splits:
        remedy = f"use the {split} text that the model was trained with"
        remedies |= {f"splits.{split}.{side}_sha256": remedy for side in ("source", "target")}
    model, here = (
        {key: value for key, value in flat_options(asdict(one)).items() if value is not None}
        for one in (expected, present)
    )
    differences = [
        f"{key.replace('.', ' ')} (model: {model.get(key, 'nothing')}, "
        f"here: {here.get(key, 'nothing')}): {remedy}"
        for key, remedy in remedies.items()
        if model.get(key) is None or model.get(key) != here.get(key)
    ]
    if differences:
        raise UserError(f"the data are not those of the model. {'; '.join(differences)}")
