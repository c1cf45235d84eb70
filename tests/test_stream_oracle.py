"""The oracle of streams: what must be read to be certain of a word, or of the end of a sentence."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from functools import cache, partial
from itertools import accumulate, pairwise

import pytest

from simulmt.data import verbfinal as grammar
from simulmt.data import verbfinal_lexicon as lexicon
from simulmt.data.corpus import Split, oracle_delays
from simulmt.data.recognised import as_recognised
from simulmt.data.verbfinal import Pair, draw_construction, draw_pair, several_clauses, verbfinal
from simulmt.data.verbfinal_ends import OPEN, rules, sentence_ends
from simulmt.data.verbfinal_grammar import Phrase
from simulmt.scoring.stream_oracle import oracle_scores, oracle_stream

MARKS = {".", ","}


def stream_of(pairs: Sequence[Pair], marks: bool = False, several: bool = False) -> Split:
    """Some sentences as one document."""
    split = Split(
        [" ".join(pair.german) for pair in pairs],
        [" ".join(pair.english) for pair in pairs],
        [pair.links for pair in pairs],
        documents={"1": range(len(pairs))},
        ends=partial(sentence_ends, several=several),
    )
    return as_recognised(split, not marks, 0)


@pytest.fixture
def few_words(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The open constructions with so few words that sentences often begin alike."""
    kept = {
        "PERSONS": ("Onkel", "Bäcker"),
        "THINGS": ("Apfel", "Koffer"),
        "ADJECTIVES": ("alt", "klein"),
        "SIMPLE_VERBS": ("kauft",),
        "SEPARABLE_VERBS": ("macht",),
        "NAMES": ("Anna",),
        "PLACES": ("im Büro", "am See"),
        "MANNERS": ("heimlich",),
        "DEGREES": ("nicht",),
        "PAST": ("am Montag",),
        "PRESENT": ("am Montag", "im Winter"),
    }
    for name, words in kept.items():
        table = [entry for entry in getattr(lexicon, name) if {*words} & {*entry}]
        monkeypatch.setattr(lexicon, name, table)
    monkeypatch.setattr(lexicon, "VERBS", lexicon.SIMPLE_VERBS + lexicon.SEPARABLE_VERBS)
    rules.cache_clear()
    yield
    rules.cache_clear()


def open_construction(rng: random.Random) -> Callable[[random.Random], Phrase]:
    return rng.choice((grammar.present, grammar.present, grammar.copula, grammar.reason))


@pytest.mark.usefixtures("few_words")
def test_the_oracle_of_a_stream_reads_enough_and_no_more() -> None:
    """At its delay the next word is certain; one source word earlier it is not.

    Brute force: all documents that agree in the source read and the target written.
    """
    rng, ends_of, rows = random.Random(4), cache(sentence_ends), []
    for _ in range(7_000):
        pairs = [draw_pair(rng, open_construction(rng)) for _ in range(2)]
        if sum(len(pair.german) for pair in pairs) > 16:
            continue
        oracle = oracle_stream(stream_of(pairs), "1", lambda words: ends_of(tuple(words)))
        read = ["", *accumulate(oracle.text.split(), "{} {}".format)]
        read[-1] += " END"  # the end of a document is told
        written = ["", *accumulate(oracle.prediction.split(), "{} {}".format)]
        words = zip(oracle.prediction.split(), written, pairwise([0, *oracle.delays]), strict=False)
        rows.append((read, [*words]))
    followers: defaultdict[tuple[str, str], defaultdict[str, int]]
    followers = defaultdict(lambda: defaultdict(int))
    for read, words in rows:
        for word, prefix, (earliest, delay) in words:
            for g in range(earliest, delay + 1):
                followers[read[g], prefix][word] += 1
    frequent = early = ends = 0
    for read, words in rows:
        for word, prefix, (before, delay) in words:
            assert len(followers[read[delay], prefix]) == 1, (read[-1], word, read[delay])
            rivals = followers[read[delay - 1], prefix]
            if delay > before and sum(rivals.values()) >= 10:
                frequent += 1
                ends += word == "."
                early += len(rivals) == 1
    assert ends > 50
    assert early <= 0.01 * frequent  # by chance all of 10 or more documents go on alike


@pytest.mark.parametrize("words", [None, (8, 30)])
def test_the_grammar_recognises_what_it_generates(words: tuple[int, int] | None) -> None:
    """Its true end is always possible, and the only one once the oracle ends the sentence."""
    split = verbfinal(3, 200, 0, 0, words).splits["train"]
    assert split.ends is not None
    sources = as_recognised(split, 1, 0).sources
    late = 0
    for one, other in pairwise(sources):
        first, both = one.split(), [*one.split(), *other.split()]
        for read in range(len(both) + 1):
            ends = split.ends(both[:read])
            assert (len(first) if read >= len(first) else OPEN) in ends
            if ends == {len(first)}:
                assert split.ends([word.lower() for word in both[:read]]) == ends
                late += read > len(first)
                break
    assert late == len(sources) - 1 if words else 20 < late < 100


def test_ends_that_only_the_next_sentence_tells() -> None:
    def ends(text: str) -> set[int]:
        return sentence_ends(text.split())

    assert ends("Anna kauft das Buch") == {4, OPEN}
    assert ends("Anna kauft das Buch im") == {4, OPEN}
    assert ends("Anna kauft das Buch im Garten") == {4, 6, OPEN}
    assert ends("Anna kauft das Buch im Garten kauft") == {4}
    assert ends("Anna kauft das Buch im Garten Peter") == {6}
    assert ends("Anna hat das Buch gekauft") == {5}
    assert ends("heute ist Anna klein") == {4}
    because = "Anna ist klein weil Peter das Buch kauft"
    assert ends(because) == {3, 8}
    assert ends(f"{because} ist") == {3}
    assert ends(f"{because} der") == {8}
    assert ends("Anna hat das Buch kauft") == set()


def test_with_marks_the_oracle_is_that_of_the_sentences() -> None:
    rng = random.Random(5)
    pairs = [draw_pair(rng, draw_construction(rng)) for _ in range(40)]
    split = stream_of(pairs, marks=True)
    assert split.ends is not None
    assert split.needs is not None
    oracle = oracle_stream(split, "1", split.ends)
    delays, start = list[int](), 0
    for pair, needs in zip(pairs, split.needs, strict=True):
        delays += [start + delay for delay in oracle_delays(needs)]
        start += len(pair.german)
    assert [*oracle.delays] == delays
    assert [boundary.split for boundary in oracle.boundaries] == [
        boundary.read for boundary in oracle.boundaries
    ]


@pytest.mark.parametrize("several", [False, True])
def test_without_marks_it_reads_on(several: bool) -> None:
    """It never reads less than with marks, apart from the marks, and never beyond the document."""
    rng = random.Random(6)
    draw = partial(several_clauses, least=12)
    pairs = [draw_pair(rng, draw if several else draw_construction(rng)) for _ in range(40)]
    marked, bare = (stream_of(pairs, marks, several) for marks in (True, False))
    assert marked.ends is not None
    assert bare.ends is not None
    before, after = (oracle_stream(s, "1", s.ends) for s in (marked, bare))
    words = before.text.split()
    assert after.text.split() == [word for word in words if word not in MARKS]
    assert after.prediction == before.prediction
    kept = [0, *accumulate(int(word not in MARKS) for word in words)]
    least = [kept[int(delay)] for delay in before.delays]
    assert all(a <= b for a, b in zip(least, after.delays, strict=True))
    assert least != [*after.delays]
    assert max(after.delays) == kept[-1]
    figures = oracle_scores(bare)["oracle"]
    assert {score.signature.split("|")[-1] for score in figures.values()} == {"d:oracle"}
    lengths = [len(source.split()) for source in bare.sources]
    assert [boundary.split for boundary in after.boundaries] == [*accumulate(lengths)]
    assert (figures["read_beyond"].value or 0) >= several  # "und" might follow


def test_without_a_word_alignment_there_is_no_oracle() -> None:
    assert oracle_scores(Split(["a"], ["b"], documents={"1": range(1)})) == {}
