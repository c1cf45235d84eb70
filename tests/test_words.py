"""Decisions by words: what is read and written as a whole, in training and in decoding."""

from __future__ import annotations

from itertools import groupby, pairwise
from pathlib import Path

import pytest
import torch

import zoo
from shapes import unchecked
from simulmt.attention.words import ends_of_words
from simulmt.decoding.greedy import greedy
from simulmt.live.translator import Translator
from simulmt.models.model import Model
from simulmt.models.vocabulary import Vocabulary
from simulmt.saved import checkpoint
from small_runs import assert_same_scores, configuration, run
from zoo import EOS

WORDS = {"source_unit": "word", "target_unit": "word"}
LONG = Vocabulary(zoo.VOCABULARY, begins=tuple(n < 4 or n % 4 == 0 for n in range(zoo.VOCABULARY)))
"""Most subwords go on with a word."""
BY_WORDS = [f"mechanism.{name}={unit}" for name, unit in WORDS.items()]


def words_of(tokens: list[int], made: Model) -> list[list[int]]:
    """The subwords of each word; EOS is one."""
    words: list[list[int]] = []
    for token in tokens:
        if made.begins[token] or not words:
            words.append([])
        words[-1].append(token)
    return words


def test_a_word_ends_before_the_next_one_begins() -> None:
    made = zoo.model(zoo.options("wait_k"))
    source, mask = zoo.sentences(50, 12)
    ends = ends_of_words(source, mask, made.begins)
    for row, own, length in zip(source.tolist(), ends.tolist(), mask.sum(1).tolist(), strict=True):
        sizes = [len(word) for word in words_of(row[:length], made)]
        assert [j + 1 for j, end in enumerate(own) if end] == torch.tensor(sizes).cumsum(0).tolist()


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("wait_k", zoo.BY_WORD),
        ("wait_k", zoo.REENCODING),
        ("multi_path", "rnmt_plus"),
        ("multi_path", zoo.GUIDED),
    ],
)
def test_wait_k_waits_for_words_and_writes_words(name: str, kind: str) -> None:
    """`g_t = min(t + k - 1, S)` for all subwords of word t, both in words."""
    k, several = 2, 0
    for seed in range(4):
        made = zoo.model(zoo.options(name) | WORDS | {"k": k}, seed, kind, vocabulary=LONG)
        made.length_limit = zoo.short_limit
        source, mask = zoo.sentences(6, 12)
        for row, length, written in zip(
            source.tolist(),
            mask.sum(1).tolist(),
            greedy(made, source, mask),
            strict=True,
        ):
            ends = torch.tensor([len(w) for w in words_of(row[:length], made)]).cumsum(0).tolist()
            words = words_of(written.tokens, made)
            several += sum(len(word) > 1 for word in words)
            delays = [ends[min(t + k - 1, len(ends)) - 1] for t in range(1, len(words) + 1)]
            expected = [g for g, word in zip(delays, words, strict=True) for _ in word]
            assert written.delays == expected
    assert several, "without words of several subwords this says nothing"


@pytest.mark.parametrize(("name", "kind"), zoo.pairs(["mma_il", "milk", "mocha", "mma_h"]))
def test_learned_heads_stop_at_ends_of_words_and_stay_inside_target_words(
    name: str, kind: str
) -> None:
    several = 0
    for seed in range(4):
        made = zoo.model(zoo.options(name) | WORDS, seed, kind, vocabulary=LONG)
        made.length_limit = zoo.short_limit
        source, mask = zoo.sentences(6, 12)
        ends = ends_of_words(source, mask, made.begins)
        for row, written in enumerate(greedy(made, source, mask)):
            stops = {j + 1 for j, end in enumerate(ends[row].tolist()) if end}
            assert {place for stood in written.positions for place in stood} <= stops
            starts = made.begins[written.tokens].cumsum(0).tolist()
            steps = zip(starts, written.positions, written.delays, strict=True)
            for _, word in groupby(steps, key=lambda step: step[0]):
                subwords = [*word]
                several += len(subwords) > 1
                assert all(one == other for one, other in pairwise(subwords))
    assert several, "without words of several subwords this says nothing"


@pytest.mark.parametrize(("name", "kind"), zoo.pairs(["wait_k", "mma_il", "milk-window"]))
def test_words_of_one_subword_change_nothing(name: str, kind: str) -> None:
    alone = Vocabulary(zoo.VOCABULARY)
    by_subwords = zoo.model(zoo.MECHANISMS[name], kind=kind, vocabulary=alone)
    by_words = zoo.model(zoo.MECHANISMS[name] | WORDS, kind=kind, vocabulary=alone)
    source, mask = zoo.sentences(6, 12)
    target = torch.randint(4, zoo.VOCABULARY, (6, 7))
    with torch.no_grad():
        one, other = (made(source, mask, target).logits for made in (by_subwords, by_words))
    torch.testing.assert_close(one, other, rtol=0, atol=1e-9)  # float64, far above its rounding
    assert greedy(by_subwords, source, mask) == greedy(by_words, source, mask)


@pytest.mark.parametrize("mechanism", ["mma_il", pytest.param("wait_k", marks=pytest.mark.slow)])
def test_a_run_by_words(mechanism: str, tmp_path: Path) -> None:
    """Training, its scores again, and the same words from a batch and from words as they come."""
    weight = "lambda=0.2" if mechanism == "mma_il" else "lambda=0"
    chosen = [f"mechanism={mechanism}", *BY_WORDS, weight, "objective.latency_unit=word"]
    with unchecked():
        run(tmp_path / "run", tmp_path / "cache", *chosen, "model.encoder=by_word")
        from simulmt.programs.evaluate import evaluate  # Hydra's main, which other tests replace

        evaluate(configuration("evaluate", f"checkpoint={tmp_path / 'run'}"))
    assert_same_scores(tmp_path / "run")
    translator = Translator.of(checkpoint.load(tmp_path / "run"), "cpu")
    for text in ("der Mann sieht den Hund", "gestern", ""):
        said = [new for word in text.split() for new in translator.read(word)] + translator.finish()
        ids = torch.tensor([[*translator.subwords.encode(text), EOS]])
        (whole,) = greedy(translator.model, ids, ids != 0)
        assert " ".join(said) == translator.subwords.decode(whole.tokens)
        translator.reset()
