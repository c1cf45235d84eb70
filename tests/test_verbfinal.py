"""The embedded corpus: its splits, its words and their agreement."""

from __future__ import annotations

import hashlib
import json
import random
import time
from collections import Counter
from itertools import pairwise

import pytest

from simulmt.data import verbfinal_lexicon as lexicon
from simulmt.data.corpus import Corpus
from simulmt.data.verbfinal import (
    Pair,
    verbfinal,
)
from simulmt.data.verbfinal_grammar import ACCUSATIVE, NOMINATIVE, noun_phrase
from simulmt.errors import UserError
from simulmt.options import construct


@pytest.fixture(scope="module")
def timed_corpus() -> tuple[Corpus, float]:
    """The corpus and the processor seconds it took."""
    start = time.process_time()
    corpus = verbfinal(1, 20_000, 1_000, 1_000)
    return corpus, time.process_time() - start


@pytest.fixture(scope="module")
def corpus(timed_corpus: tuple[Corpus, float]) -> Corpus:
    return timed_corpus[0]


@pytest.fixture(scope="module")
def pairs(corpus: Corpus) -> list[Pair]:
    """Those of the training split, in words."""
    train = corpus.splits["train"]
    assert train.links
    rows = zip(train.sources, train.targets, train.links, strict=True)
    return [Pair(source.split(" "), target.split(" "), links) for source, target, links in rows]


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


def test_sizes_and_names(corpus: Corpus) -> None:
    assert (corpus.name, corpus.source_language, corpus.target_language) == (
        "verbfinal",
        "de",
        "en",
    )
    assert {name: len(split) for name, split in corpus.splits.items()} == {
        "train": 20_000,
        "valid": 1_000,
        "test": 1_000,
    }
    assert len(verbfinal(1, 5, 0, 0).splits["valid"]) == 0


def test_held_out_sentences_are_unique_and_unseen(corpus: Corpus) -> None:
    train, valid, test = (set(corpus.splits[name].sources) for name in ("train", "valid", "test"))
    assert len(valid) == len(test) == 1_000
    assert not train & valid
    assert not train & test
    assert not valid & test
    assert len(train) > 0.95 * 20_000


def test_fast(timed_corpus: tuple[Corpus, float]) -> None:
    assert timed_corpus[1] < 4  # well under 2 s on an idle core


@pytest.mark.parametrize(
    ("sizes", "named"), [({"train": -1}, "train is -1"), ({"valid": 1_000_001}, "valid is 1000001")]
)
def test_sizes_out_of_range(sizes: dict[str, int], named: str) -> None:
    with pytest.raises(UserError, match=named):
        construct(verbfinal, {"seed": 1, "train": 1, "valid": 1, "test": 1, **sizes}, "data")


def test_lexicon_size_and_word_frequency(corpus: Corpus) -> None:
    train = corpus.splits["train"]
    for sentences in (train.sources, train.targets):
        counts = words_of(sentences)
        assert 270 <= len(counts) <= 400
        assert min(counts.values()) >= 50
    for name in ("valid", "test"):
        assert words_of(corpus.splits[name].sources).keys() <= words_of(train.sources).keys()
        assert words_of(corpus.splits[name].targets).keys() <= words_of(train.targets).keys()


def test_lengths_and_spelling(corpus: Corpus) -> None:
    train = corpus.splits["train"]
    for sentences in (train.sources, train.targets):
        lengths = [len(sentence.split(" ")) for sentence in sentences]
        assert 3 <= min(lengths) <= 5
        assert max(lengths) <= 26
        assert sum(length <= 20 for length in lengths) > 0.98 * len(lengths)
        assert 9 <= sum(lengths) / len(lengths) <= 11
        assert all(word.isalpha() or word in ",." for word in words_of(sentences))
        assert all(sentence.endswith(" .") for sentence in sentences)


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
        ("Arzt singular a nominative", "ein alter Arzt", "an old doctor"),
        ("Onkel plural a nominative", "alte Onkel", "old uncles"),
        ("Frau plural the nominative", "die alten Frauen", "the old women"),
        ("Kind singular a nominative", "ein altes Kind", "an old child"),
        ("Koffer singular the accusative", "den alten Koffer", "the old suitcase"),
        ("Koffer singular a accusative", "einen alten Koffer", "an old suitcase"),
        ("Koffer plural this accusative", "diese alten Koffer", "these old suitcases"),
        ("Uhr singular this accusative", "diese alte Uhr", "this old clock"),
        ("Buch singular this accusative", "dieses alte Buch", "this old book"),
        ("Buch singular a accusative", "ein altes Buch", "an old book"),
        ("Buch singular his accusative", "sein altes Buch", "his old book"),
        ("Koffer singular her accusative", "ihren alten Koffer", "her old suitcase"),
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


def test_a_and_an_follow_the_sound(pairs: list[Pair]) -> None:
    for pair in pairs:
        for word, following in pairwise(pair.english):
            if word in ("a", "an"):
                assert (word == "an") == (following[0] in "aeiou"), pair.english


def test_articles_match_the_gender_of_their_noun(pairs: list[Pair]) -> None:
    gender = {noun.singular: noun.gender for noun in lexicon.PERSONS + lexicon.THINGS}
    plurals = {noun.plural for noun in lexicon.PERSONS + lexicon.THINGS}
    articles = {"der": "m", "den": "m", "einen": "m", "eine": "f", "das": "n", "dieses": "n"}
    checked = 0
    for pair in pairs:
        if any(word in ("in", "neben", "unter", "hinter") for word in pair.german):
            continue  # the datives of the places
        for article, noun in pairwise(pair.german):
            if article in articles and noun in gender:
                assert gender[noun] == articles[article], pair.german
                checked += 1
            if article == "die" and noun in gender and gender[noun] != "f":
                assert noun in plurals, pair.german
    assert checked > 5_000


def test_verbs_agree_with_their_subject(pairs: list[Pair]) -> None:
    singular, plural = {"is", "was", "has", "wants"}, {"are", "were", "have", "want"}
    singular |= {verb.third for verb in lexicon.VERBS}
    for pair in pairs:
        for subject, verb in pairwise(pair.english):
            if subject in ("he", "Anna", "Maria", "Peter", "Paul", "woman"):
                assert verb not in plural, pair.english
            if subject in ("we", "I", "women"):
                assert verb not in singular, pair.english
