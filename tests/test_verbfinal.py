"""The built-in corpus: its splits, its words and their agreement."""

from __future__ import annotations

import hashlib
import json
import random
from collections import Counter

import pytest

from simulmt.data import verbfinal_lexicon as lexicon
from simulmt.data.corpus import Corpus
from simulmt.data.verbfinal import verbfinal
from simulmt.data.verbfinal_grammar import ACCUSATIVE, NOMINATIVE, noun_phrase


@pytest.fixture(scope="module")
def corpus() -> Corpus:
    return verbfinal(1, 20_000, 1_000, 1_000)


def words_of(sentences: list[str]) -> Counter[str]:
    return Counter(word for sentence in sentences for word in sentence.split(" "))


# ------------------------------------------------------------------------------- the corpus


def test_same_seed_same_corpus() -> None:
    assert verbfinal(7, 300, 30, 20) == verbfinal(7, 300, 30, 20)
    assert verbfinal(7, 300, 30, 20) != verbfinal(8, 300, 30, 20)


def test_same_numbers_on_every_platform() -> None:
    split = verbfinal(0, 1, 0, 0).splits["train"]
    assert split.sources == ["am Montag stiehlt die Frau die neuen Bilder ."]
    assert split.targets == ["on Monday the woman steals the new pictures ."]
    assert split.needs == [[2, 2, 4, 5, 3, 6, 7, 8, 9]]
    state = hashlib.sha256()
    for split in verbfinal(7, 300, 30, 20).splits.values():
        state.update(json.dumps([split.sources, split.targets, split.links]).encode())
    assert state.hexdigest().startswith("9149e9e09c18f158")


def test_sentences_of_several_clauses_have_the_length_that_was_asked_for() -> None:
    for split in verbfinal(7, 60, 20, 20, words=(40, 60)).splits.values():
        assert all(40 <= len(source.split()) <= 60 for source in split.sources)
        assert split.needs is not None
        lengths = [len(target.split()) for target in split.targets]
        assert [*map(len, split.needs)] == lengths


def test_sizes_and_names(corpus: Corpus) -> None:
    assert (corpus.name, corpus.source_language, corpus.target_language) == (
        "verbfinal",
        "de",
        "en",
    )
    assert [len(split) for split in corpus.splits.values()] == [20_000, 1_000, 1_000]
    assert len(verbfinal(1, 5, 0, 0).splits["valid"]) == 0


def test_held_out_sentences_are_unique_and_unseen(corpus: Corpus) -> None:
    train, valid, test = (set(corpus.splits[name].sources) for name in ("train", "valid", "test"))
    assert len(valid) == len(test) == 1_000
    assert not train & valid
    assert not train & test
    assert not valid & test
    assert len(train) > 0.95 * 20_000


def test_english_is_a_function_of_german(corpus: Corpus) -> None:
    english: dict[str, str] = {}
    for split in corpus.splits.values():
        for source, target in zip(split.sources, split.targets, strict=True):
            assert english.setdefault(source, target) == target


# -------------------------------------------------------------------------------- agreement


@pytest.mark.parametrize(
    ("wanted", "german", "english"),
    [
        ("Arzt singular the nominative", "der alte Arzt", "the old doctor"),
        ("Onkel plural a nominative", "alte Onkel", "old uncles"),
        ("Frau plural the nominative", "die alten Frauen", "the old women"),
        ("Kind singular a nominative", "ein altes Kind", "an old child"),
        ("Koffer singular the accusative", "den alten Koffer", "the old suitcase"),
        ("Koffer plural this accusative", "diese alten Koffer", "these old suitcases"),
        ("Buch singular this accusative", "dieses alte Buch", "this old book"),
        ("Buch singular his accusative", "sein altes Buch", "his old book"),
        ("Bild plural their accusative", "ihre alten Bilder", "their old pictures"),
    ],
)
def test_noun_phrases_agree(
    monkeypatch: pytest.MonkeyPatch, wanted: str, german: str, english: str
) -> None:
    noun, number, determiner, case = wanted.split()
    monkeypatch.setattr(lexicon, "ADJECTIVES", [("alt", "old")])
    (entry,) = (entry for entry in lexicon.PERSONS + lexicon.THINGS if entry.singular == noun)
    rng = random.Random(0)
    column = {"nominative": NOMINATIVE, "accusative": ACCUSATIVE}[case]
    phrases = [noun_phrase(rng, entry, number == "plural", determiner, column) for _ in range(30)]
    seen = {
        (
            " ".join(word.text for word in phrase.german),
            " ".join(word.text for word in phrase.english),
        )
        for phrase in phrases
    }
    assert (german, english) in seen
    assert len(seen) == 2  # with and without the adjective
