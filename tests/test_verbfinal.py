"""The embedded corpus: its grammar, its word alignment and its difficulty."""

from __future__ import annotations

import hashlib
import json
import math
import random
import time
from collections import Counter, defaultdict
from collections.abc import Callable
from itertools import accumulate, pairwise

import pytest

from simulmt.data import verbfinal_lexicon as lexicon
from simulmt.data.corpus import Corpus, Split, oracle_delays
from simulmt.data.verbfinal import (
    CONSTRUCTIONS,
    Pair,
    draw_construction,
    draw_pair,
    modal,
    past,
    past_perfect,
    present_perfect,
    separable,
    verbfinal,
)
from simulmt.data.verbfinal_grammar import ACCUSATIVE, NOMINATIVE, Phrase, noun_phrase
from simulmt.errors import UserError
from simulmt.options import construct

SHARES = {construction.__name__: share / 100 for construction, share in CONSTRUCTIONS.items()}
VERB_LAST = ("past", "present_perfect", "past_perfect", "modal", "separable", "opinion")


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
def drawn() -> list[tuple[str, Pair]]:
    """Pairs, each with the name of its construction."""
    rng = random.Random(2)
    rules = (draw_construction(rng) for _ in range(20_000))
    return [(rule.__name__, draw_pair(rng, rule)) for rule in rules]


@pytest.fixture(scope="module")
def pairs(drawn: list[tuple[str, Pair]]) -> list[Pair]:
    return [pair for _, pair in drawn]


@pytest.fixture
def small_lexicon(monkeypatch: pytest.MonkeyPatch) -> None:
    """A few words of each kind, so that sentences often begin alike."""

    def keep(name: str, words: str, column: int) -> None:
        kept = [entry for entry in getattr(lexicon, name) if entry[column] in words.split(",")]
        assert len(kept) == len(words.split(",")), name
        monkeypatch.setattr(lexicon, name, kept)

    keep("PERSONS", "Bäcker,Onkel,Frau,Tante", 1)
    keep("THINGS", "Koffer,Apfel,Uhr", 1)
    keep("ADJECTIVES", "alt,klein", 0)
    keep("SIMPLE_VERBS", "kaufen,verkaufen", 1)
    keep("NAMES", "Anna,Peter", 0)
    keep("PLACES", "im Garten,im Büro,am See,draußen", 0)
    keep("MANNERS", "zum Spaß,zum Trost", 0)
    keep("PAST", "am Montag,am Freitag,heute", 0)
    keep("PRESENT", "am Montag,am Abend,heute", 0)
    keep("FUTURE", "am Freitag,am Abend,morgen", 0)
    separable = [verb for verb in lexicon.SEPARABLE_VERBS if verb.singular in ("macht", "nimmt")]
    monkeypatch.setattr(lexicon, "SEPARABLE_VERBS", separable)
    monkeypatch.setattr(lexicon, "VERBS", lexicon.SIMPLE_VERBS + separable)


def needs_of(pair: Pair) -> list[int]:
    (needs,) = Split([""], [""], [pair.links]).needs or []
    return needs


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
    with pytest.raises(UserError, match=rf"{named}; it must be 0 to 1,000,000"):
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


def test_english_is_a_function_of_german(corpus: Corpus, pairs: list[Pair]) -> None:
    english: dict[str, str] = {}
    for split in corpus.splits.values():
        for source, target in zip(split.sources, split.targets, strict=True):
            assert english.setdefault(source, target) == target
    for pair in pairs:
        target = " ".join(pair.english)
        assert english.setdefault(" ".join(pair.german), target) == target


# ---------------------------------------------------------------------------- the alignment


def test_needs_fit_the_sentences(corpus: Corpus) -> None:
    for split in corpus.splits.values():
        assert split.needs is not None
        rows = zip(split.sources, split.targets, split.needs, strict=True)
        for source, target, needs in rows:
            assert len(needs) == len(target.split(" "))
            assert all(0 <= need <= len(source.split(" ")) for need in needs)
            delays = oracle_delays(needs)
            assert delays == list(accumulate(delays, max))
            assert delays[0] >= 1
            assert delays[-1] == len(source.split(" "))


def test_every_german_word_is_translated_but_the_comma_before_a_conjunction(
    pairs: list[Pair],
) -> None:
    for pair in pairs:
        aligned = {position for links in pair.links for position in links}
        null = set(range(1, len(pair.german) + 1)) - aligned
        for position in null:
            assert pair.german[position - 1] == ","
            assert pair.german[position] in ("dass", "warum", "weil")


def test_oracle_delays() -> None:
    assert oracle_delays([]) == []
    assert oracle_delays([0, 0, 3, 2, 5]) == [0, 0, 3, 3, 5]
    assert oracle_delays([4, 1]) == [4, 4]


@pytest.mark.usefixtures("small_lexicon")
def test_oracle_reads_enough_and_no_more() -> None:
    """At the oracle's delay the next word is certain; one source word earlier it is not."""
    rng = random.Random(3)
    check_oracle([draw_pair(rng, draw_construction(rng)) for _ in range(15_000)], least=True)


def test_oracle_reads_enough_with_the_whole_lexicon(pairs: list[Pair]) -> None:
    check_oracle(pairs, least=False)


def check_oracle(pairs: list[Pair], least: bool) -> None:
    """Compare every sentence with the sentences of the same source and target prefix."""
    join = "{} {}".format
    rows = [
        (
            ["", *accumulate(pair.german, join)],
            ["", *accumulate(pair.english, join)],
            list(pairwise([0, *oracle_delays(needs_of(pair))])),
        )
        for pair in pairs
    ]
    followers: defaultdict[tuple[str, str], dict[str, int]] = defaultdict(dict)
    for pair, (read, written, delays) in zip(pairs, rows, strict=True):
        for word, prefix, (earliest, delay) in zip(pair.english, written[:-1], delays, strict=True):
            for g in range(earliest, delay + 1):
                counts = followers[read[g], prefix]
                counts[word] = counts.get(word, 0) + 1
    frequent = early = 0
    for pair, (read, written, delays) in zip(pairs, rows, strict=True):
        for word, prefix, (before, delay) in zip(pair.english, written[:-1], delays, strict=True):
            assert len(followers[read[delay], prefix]) == 1, (pair.german, word)
            rivals = followers[read[delay - 1], prefix]
            if delay > before and word != "." and sum(rivals.values()) >= 40:
                frequent += 1
                early += len(rivals) == 1
    if least:
        assert frequent > 10_000
        assert early <= 0.001 * frequent


def test_delays_spread_widely(pairs: list[Pair]) -> None:
    waits = Counter(
        max(late - early for early, late in pairwise([0, *oracle_delays(needs_of(pair))]))
        for pair in pairs
    )
    assert sum(count for wait, count in waits.items() if wait <= 2) > 0.15 * len(pairs)
    assert sum(count for wait, count in waits.items() if wait > 6) > 0.15 * len(pairs)
    assert max(waits) >= 9


# ------------------------------------------------------------------------- unpredictability


def entropy(counts: Counter[str]) -> float:
    """Bits, with Miller and Madow's correction for the size of the sample."""
    total = counts.total()
    plain = -sum(n / total * math.log2(n / total) for n in counts.values())
    return plain + (len(counts) - 1) / (2 * total * math.log(2))


@pytest.mark.parametrize(
    "constructions", [("past", "present_perfect", "past_perfect"), ("modal",), ("opinion",)]
)
def test_no_word_before_the_verb_predicts_it(
    drawn: list[tuple[str, Pair]], constructions: tuple[str, ...]
) -> None:
    verbs = len(lexicon.VERBS)
    assert verbs == 32
    contexts: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for construction, pair in drawn:
        if construction in constructions:
            *before, verb, _ = pair.german
            for word in {"always", *before}:
                contexts[word][verb] += 1
    frequent = [counts for counts in contexts.values() if counts.total() >= 300]
    assert len(frequent) > 5
    assert min(map(entropy, frequent)) > math.log2(verbs) - 0.2
    assert entropy(contexts["always"]) > math.log2(verbs) - 0.02


def test_a_stem_does_not_tell_the_particle(drawn: list[tuple[str, Pair]]) -> None:
    stems = {form for verb in lexicon.SEPARABLE_VERBS for form in (verb.singular, verb.plural)}
    assert not stems & {
        form for verb in lexicon.SIMPLE_VERBS for form in (verb.singular, verb.plural)
    }
    contexts: defaultdict[tuple[str, str], Counter[str]] = defaultdict(Counter)
    for construction, pair in drawn:
        if construction == "separable":
            (stem,) = stems & set(pair.german)
            for word in {*pair.german[:-2]}:
                contexts[stem, word][pair.german[-2]] += 1
    frequent = [counts for counts in contexts.values() if counts.total() >= 100]
    assert len(frequent) > 20
    assert min(map(entropy, frequent)) > 1.85
    meanings = {(verb.particle, verb.base) for verb in lexicon.SEPARABLE_VERBS}
    assert len(meanings) > len({particle for particle, _ in meanings})


@pytest.mark.usefixtures("small_lexicon")
@pytest.mark.parametrize("rule", [past, present_perfect, past_perfect, modal, separable])
def test_any_verb_can_end_a_sentence(
    monkeypatch: pytest.MonkeyPatch, rule: Callable[[random.Random], Phrase]
) -> None:
    """The same words up to the final verb, and every verb of the lexicon after them."""
    for name in ("PERSONS", "THINGS", "MODALS", "ASPECTS", "PLACES"):
        monkeypatch.setattr(lexicon, name, getattr(lexicon, name)[-1:])
    for name in ("MANNERS", "PAST", "PRESENT", "FUTURE"):
        monkeypatch.setattr(lexicon, name, [])
    rng = random.Random(4)
    endings: defaultdict[str, set[str]] = defaultdict(set)
    counts: Counter[str] = Counter()
    verbs = 4 if rule is separable else len(lexicon.VERBS)
    for _ in range(8_000):
        *before, verb = (word.text for word in rule(rng).german)
        counts[" ".join(before)] += 1
        endings[" ".join(before)].add(verb)
    frequent = [text for text, count in counts.items() if count >= 8 * verbs]
    assert len(frequent) >= 2
    for text in frequent:
        assert len(endings[text]) == verbs, text


def test_separable_particles_are_no_other_word(drawn: list[tuple[str, Pair]]) -> None:
    """Only the next word would tell a particle from the first word of an adverbial."""
    particles = {verb.particle for verb in lexicon.SEPARABLE_VERBS}
    for construction, pair in drawn:
        places = [i for i, word in enumerate(pair.german) if word in particles]
        assert places == ([len(pair.german) - 2] if construction == "separable" else [])


def test_constructions_have_their_shares(drawn: list[tuple[str, Pair]]) -> None:
    counts = Counter(construction for construction, _ in drawn)
    assert sum(SHARES.values()) == pytest.approx(1)
    for name, share in SHARES.items():
        assert counts[name] / len(drawn) == pytest.approx(share, abs=0.01)
    assert sum(SHARES[name] for name in VERB_LAST) > 0.6
    assert SHARES["present"] + SHARES["copula"] >= 0.2


def test_zero_to_three_adverbials_before_the_verb(drawn: list[tuple[str, Pair]]) -> None:
    starts = ("am", "im", "in", "zum", "heute", "gestern", "wieder", "langsam", "draußen")
    counts = Counter(
        sum(word in starts for word in pair.german)
        for construction, pair in drawn
        if construction == "past"
    )
    assert set(counts) == {0, 1, 2, 3}


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
