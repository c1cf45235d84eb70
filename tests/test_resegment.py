"""Re-segmentation keeps the words and their order, and equals the plain loops of its definition."""

from __future__ import annotations

import math
import random
from itertools import pairwise

import pytest

from simulmt.errors import UserError
from simulmt.scoring import moses as module
from simulmt.scoring.moses import moses
from simulmt.scoring.resegment import PUNCTUATION, levenshtein, soft

WORDS = ["a", "ab", "abc", "b", "bc", "cd", "x", "xy", ".", ",", "-", "Ab", "Ab.", "B,", "(c)"]


def whole(word):
    return [word]


def halves(word):
    """A tokeniser that splits off the last sign of a word."""
    return [word[:-1], word[-1]] if len(word) > 1 else [word]


def documents(seed, count=60, longest=9):
    """Random translations with their references; a segment or all of a side may be empty."""
    draw = random.Random(seed)
    for _ in range(count):
        segments = [draw.choices(WORDS, k=draw.randrange(5)) for _ in range(draw.randint(1, 4))]
        words = [word for segment in segments for word in segment if draw.random() < 0.7]
        words += draw.choices(WORDS, k=draw.randrange(longest))
        yield words if draw.random() < 0.9 else [], [" ".join(segment) for segment in segments]


def by_loops(hypothesis, gold, similarity, gap, order):
    """The path of the best alignment, from the front: pairs of places, None for a gap."""
    n, m = len(gold), len(hypothesis)
    best = [[-gap * (i + j) if not (i and j) else 0.0 for j in range(m + 1)] for i in range(n + 1)]
    for i in range(1, n + 1):
        for j in range(1, m + 1):
            match = best[i - 1][j - 1] + similarity(gold[i - 1], hypothesis[j - 1])
            best[i][j] = max(match, best[i - 1][j] - gap, best[i][j - 1] - gap)
    path, i, j = [], n, m
    while i or j:
        similar = similarity(gold[i - 1], hypothesis[j - 1]) if i and j else -math.inf
        moves = {
            "match": i and j and similar >= 0 and best[i][j] == best[i - 1][j - 1] + similar,
            "delete": i and best[i][j] == best[i - 1][j] - gap,
            "insert": j and best[i][j] == best[i][j - 1] - gap,
            "substitute": i and j and similar < 0 and best[i][j] == best[i - 1][j - 1] + similar,
        }
        move = next(name for name in order if moves[name])
        i, j = i - (move != "insert"), j - (move != "delete")
        path.append((i if move != "insert" else None, j if move != "delete" else None))
    return path[::-1]


ORDER = ("match", "delete", "insert", "substitute")


def levenshtein_by_loops(words, references):
    def bare(word):
        return "".join(sign for sign in word.lower() if sign not in ".,-()") or word.lower()

    gold = [(bare(word), n) for n, text in enumerate(references) for word in text.split()]
    hypothesis = [bare(word) for word in words]
    path = by_loops(
        hypothesis, [w for w, _ in gold], lambda a, b: 0.0 if a == b else -1.0, 1, ORDER
    )
    found, last = [0] * len(words), 0
    for i, j in path:
        last = last if i is None else i
        if j is not None:
            found[j] = gold[last][1] if gold else 0
    return found


def jaccard(a, b):
    if (a in PUNCTUATION) != (b in PUNCTUATION):
        return -math.inf
    return len({*a} & {*b}) / len({*a} | {*b})


def soft_by_loops(words, references, tokenize):
    gold = [
        (token, n)
        for n, text in enumerate(references)
        for word in text.lower().split()
        for token in tokenize(word)
    ]
    tokens = [(token, k) for k, w in enumerate(words) for token in tokenize(w.lower())]
    if not gold:
        return [0] * len(words)
    path = by_loops([t for t, _ in tokens], [t for t, _ in gold], jaccard, 0, ORDER)
    owners, last, ahead = {}, None, False
    for place, (i, j) in enumerate(path):
        if i is not None:
            last, ahead = i, False
        if j is None:
            continue
        following = next((i for i, _ in path[place:] if i is not None), None)
        if i is None and following is not None:
            token = tokens[j][0]
            before = -math.inf if last is None else jaccard(token, gold[last][0])
            ahead = ahead or last is None or jaccard(token, gold[following][0]) > before
        owners[j] = gold[following if i is None and ahead else last][1]
    firsts = {}
    for j, (_, k) in enumerate(tokens):
        firsts.setdefault(k, owners[j])
    return [firsts[k] for k in range(len(words))]


@pytest.mark.parametrize("seed", range(5))
def test_levenshtein_equals_plain_loops(seed):
    for words, references in documents(seed):
        assert levenshtein(words, references) == levenshtein_by_loops(words, references)


@pytest.mark.parametrize("tokenize", [whole, halves])
@pytest.mark.parametrize("seed", range(5))
def test_soft_equals_plain_loops(seed, tokenize):
    for words, references in documents(seed):
        assert soft(words, references, tokenize) == soft_by_loops(words, references, tokenize)


@pytest.mark.parametrize("seed", range(5))
def test_soft_equals_omnisteval(seed):
    """Where that one loses no word."""
    theirs = pytest.importorskip("omnisteval.alignment", reason="OmniSTEval is not installed")
    compared = 0
    for words, references in documents(seed):
        gold = [
            theirs.Word(token, seq_id=n, main=False)
            for n, text in enumerate(references)
            for word in text.lower().split()
            for token in halves(word)
        ]
        said = [
            theirs.Word(token, main=not k)
            for word in words
            for k, token in enumerate(halves(word.lower()))
        ]
        if not gold:
            continue
        found = theirs.process_alignment(*theirs.align_sequences(gold, said, False), False)
        if len(found) == len(said):
            compared += 1
            assert soft(words, references, halves) == [w.seq_id for w in found if w.main]
    assert compared > 40


@pytest.mark.parametrize("segment", [levenshtein, lambda w, r: soft(w, r, whole)])
def test_words_stay_in_order_and_equal_text_stays_whole(segment):
    for words, references in documents(9):
        found = segment(words, references)
        assert len(found) == len(words)
        assert all(a <= b for a, b in pairwise(found))
        assert {*found} <= {*range(len(references))}
    references = ["one two", "", "three four five", "six"]
    assert segment(" ".join(references).split(), references) == [0, 0, 2, 2, 2, 3]
    assert segment([], references) == []
    assert segment(["x", "y"], ["", ""]) == [0, 0]


def test_case_and_punctuation_do_not_matter_to_levenshtein():
    assert levenshtein(["One,", "TWO", "three"], ["one two.", "Three!"]) == [0, 0, 1]
    assert levenshtein(["one", ".", "two", "."], ["one .", "two ."]) == [0, 0, 1, 1]


@pytest.mark.parametrize("language", [None, "zh", "ja"])
def test_without_a_language_words_stay_whole(language):
    with moses(language) as tokenize:
        assert tokenize("don't.") == ["don't."]


def test_moses_splits_words():
    pytest.importorskip("mosestokenizer", reason="mosestokenizer is not installed")
    with moses("de") as tokenize:
        assert tokenize("nicht-assimilierter,") == ["nicht", "@-@", "assimilierter", ","]
        assert tokenize("z.b.") == ["z.b."]


def test_a_missing_tokeniser_ends_in_one_line(monkeypatch):
    monkeypatch.setattr(module, "find_spec", lambda name: None)
    with pytest.raises(UserError, match=r"^language=de needs Perl and `pip install"), moses("de"):
        pass


def test_a_perl_that_cannot_run_the_tokeniser_ends_in_one_line(monkeypatch):
    mosestokenizer = pytest.importorskip("mosestokenizer", reason="mosestokenizer is not installed")
    monkeypatch.setattr(mosestokenizer.MosesTokenizer, "__call__", lambda self, word: [])
    with pytest.raises(UserError, match=r"^language=de: Perl with the Moses"), moses("de"):
        pass


def test_a_perl_that_is_killed_ends_in_one_line(monkeypatch):
    mosestokenizer = pytest.importorskip("mosestokenizer", reason="mosestokenizer is not installed")
    made, start = [], mosestokenizer.MosesTokenizer.start
    monkeypatch.setattr(
        mosestokenizer.MosesTokenizer, "start", lambda self: (made.append(self), start(self))
    )
    with moses("de") as split:
        made[0].proc.kill()
        made[0].proc.wait()
        with pytest.raises(UserError, match=r"^language=de: Perl with the Moses"):
            split("b")
    made[0].proc.stdout.close()


@pytest.mark.parametrize("word", ["„b“", "»B«", "b…", "’b", "「b」", "b、"])
def test_all_punctuation_is_left_out_and_not_only_that_of_the_soft_segmenter(word):
    assert levenshtein([word, "a"], ["a", "b a"]) == [1, 1]


@pytest.mark.parametrize("word", ["b€", "$b", "b+"])
def test_signs_that_are_no_punctuation_are_compared(word):
    assert levenshtein([word, "a"], ["a", "b a"]) == [0, 1]


def test_the_soft_segmenter_has_omnistevals_punctuation():
    theirs = pytest.importorskip("omnisteval.alignment", reason="OmniSTEval is not installed")
    assert PUNCTUATION == theirs.ALL_PUNCT


@pytest.mark.parametrize(("one", "other"), [("ｂ", "b"), ("ﬁ", "fi")])
def test_the_soft_segmenter_knows_other_forms_of_a_sign(one, other):
    """Full width and ligatures, on either side."""
    for said, reference in ((one, other), (other, one)):
        assert soft([said], [reference, "a"], lambda word: [word]) == [0]


def test_moses_escapes_nothing():
    pytest.importorskip("mosestokenizer", reason="mosestokenizer is not installed")
    with moses("en") as tokenize:
        assert tokenize("R&D's") == ["R", "&", "D", "'s"]
