"""The built-in corpus: what English must wait for in German, and that nothing foretells it."""

from __future__ import annotations

import math
import random
from collections import Counter, defaultdict
from functools import partial
from itertools import accumulate, pairwise

import pytest

from simulmt.data import verbfinal_lexicon as lexicon
from simulmt.data.corpus import Split, oracle_delays
from simulmt.data.verbfinal import Pair, draw_construction, draw_pair, several_clauses, verbfinal


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


# ---------------------------------------------------------------------------- the alignment


def test_needs_fit_the_sentences() -> None:
    for split in verbfinal(1, 2_000, 200, 200).splits.values():
        assert split.needs is not None
        rows = zip(split.sources, split.targets, split.needs, strict=True)
        for source, target, needs in rows:
            assert len(needs) == len(target.split(" "))
            assert all(0 <= need <= len(source.split(" ")) for need in needs)
            delays = oracle_delays(needs)
            assert delays == list(accumulate(delays, max))
            assert delays[0] >= 1
            assert delays[-1] == len(source.split(" "))


def test_oracle_delays() -> None:
    assert oracle_delays([]) == []
    assert oracle_delays([0, 0, 3, 2, 5]) == [0, 0, 3, 3, 5]
    assert oracle_delays([4, 1]) == [4, 4]


@pytest.mark.usefixtures("small_lexicon")
def test_oracle_reads_enough_and_no_more() -> None:
    """At the oracle's delay the next word is certain; one source word earlier it is not."""
    rng = random.Random(3)
    check_oracle([draw_pair(rng, draw_construction(rng)) for _ in range(15_000)])


@pytest.mark.usefixtures("small_lexicon")
def test_the_oracle_of_several_clauses_is_exact_too() -> None:
    rng = random.Random(3)
    two = [draw_pair(rng, partial(several_clauses, least=6)) for _ in range(15_000)]
    check_oracle([pair for pair in two if len(pair.german) <= 16], enough=1_000)


def check_oracle(pairs: list[Pair], enough: int = 10_000) -> None:
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
    assert frequent > enough
    assert early <= 0.001 * frequent


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
