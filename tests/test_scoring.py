from __future__ import annotations

import json
from dataclasses import replace
from itertools import pairwise

import pytest

from simulmt.decoding.instance import Instance
from simulmt.decoding.word_map import WordMap
from simulmt.errors import UserError
from simulmt.files.instances import read_instances, to_json, write_instances
from simulmt.latency import METRICS
from simulmt.scoring import score as module
from simulmt.scoring.conventions import CONVENTIONS
from simulmt.scoring.score import bleu, score
from simulmt.scoring.scores import Computing, Decoding, Scores, Text
from simulmt.system.disk import read_record, write_json

KEYS = {"index", "prediction", "delays", "prediction_length", "reference", "source"}


def instance(index=0, prediction="the old farmer went", delays=(3, 4, 4, 4), **fields):
    fields = {"reference": "the old farmer went home", **fields}
    return Instance(
        index=index,
        source="der alte Bauer ging",
        prediction=prediction,
        delays=delays,
        subword_delays=delays,
        subword_source_length=4,
        subword_reference_length=5,
        **fields,
    )


CORPUS = [
    instance(0),
    instance(1, "a farmer", (1, 4)),
    instance(2, "", ()),
    instance(3, "the old man went home now", (1, 1, 2, 2, 3, 3)),
]
ORACLE = [[1, 2, 3, 4, 4], [2, 1, 3], [], [0, 4]]


def value(scores: Scores, name: str, unit: str = "word") -> float | None:
    return scores["paper", unit][name].value


def test_every_convention_has_its_figures_in_its_units():
    scores = score(CORPUS, ORACLE)
    for name, convention in CONVENTIONS.items():
        assert (*scores.figures[name],) == convention.units
        for unit in convention.units:
            assert (*scores[name, unit],) == convention.figures
    assert score(CORPUS) == replace(scores, oracle={})
    assert (*scores.oracle["word"],) == (*METRICS,)
    quality = scores["paper", "word"]["BLEU"].signature
    assert quality.startswith("BLEU|nrefs:1|case:mixed|")
    assert "tok:13a" in quality
    assert (scores.sentences, scores.empty) == (4, 1)
    lacking = {name: own for name, own in scores["paper", "word"].items() if name != "AL"}
    paper = {**scores.figures["paper"], "word": lacking}
    with pytest.raises(ValueError, match="paper lacks AL in words"):
        replace(scores, figures={**scores.figures, "paper": paper})


def test_latency_is_the_mean_over_the_sentences_with_a_prediction():
    scores = score([instance(0), instance(1, "a b c d", (1, 2, 3, 4)), instance(2, "", ())])
    assert value(scores, "DAL") == 2
    assert value(scores, "AL") == 2
    assert value(scores, "AP") == pytest.approx((15 / 16 + 10 / 16) / 2)
    al_ref = ((3 + (4 - 4 / 5)) / 2 + (1 + 1.2 + 1.4 + 1.6) / 4) / 2
    assert value(scores, "AL_ref") == pytest.approx(al_ref)


def test_quality_is_sacrebleus():
    predictions = [i.prediction for i in CORPUS]
    assert score(CORPUS)["paper", "word"]["BLEU"] == bleu(
        predictions, [i.reference for i in CORPUS]
    )
    perfect = score([instance(0, "the old farmer went home", (1, 2, 3, 4, 4))])
    assert value(perfect, "BLEU") == pytest.approx(100)
    assert value(perfect, "chrF") == pytest.approx(100)


def test_the_oracle_writes_the_reference_in_order():
    assert score([CORPUS[1]], ORACLE).oracle == score([CORPUS[1]], [[], [2, 2, 3]]).oracle
    single = score([CORPUS[0]], ORACLE).oracle["word"]
    assert single["AP"].value == pytest.approx(14 / 20)
    assert single["AL"].value == single["AL_ref"].value == single["LAAL"].value
    with pytest.raises(IndexError):
        score(CORPUS, ORACLE[:2])


def test_order_and_repetition_do_not_matter():
    once = score(CORPUS, ORACLE)
    assert score(list(reversed(CORPUS)), ORACLE) == once
    assert score([CORPUS[2], *CORPUS, CORPUS[0]], ORACLE) == once
    with pytest.raises(ValueError, match="sentence 0 is there twice"):
        score([*CORPUS, instance(0, "another one", (1, 2))])


TEXT = Text("a.de", "a.en", ("0a", "0b"), {"empty": 1})
DECODINGS = [
    None,
    Decoding("best", "test", 1),
    Decoding("average", "valid", 5, 0.6, {"k": 5, "delta": 0.25}, word_ms=300, text=TEXT),
]


@pytest.mark.parametrize("decoding", DECODINGS)
@pytest.mark.parametrize("elapsed", [(), (3.0, 4.25, 4.5, 9.0)])
def test_scores_are_written_the_same_every_time_and_read_back(decoding, elapsed, tmp_path):
    corpus = [instance(0, elapsed=elapsed, positions=((1, 2), (2, 3))), *CORPUS[1:]]
    computing = Computing(1.5, 2.5, 3.5) if elapsed else None
    scores = score(corpus, ORACLE, decoding, computing)
    for name, order in (("a", 1), ("b", -1)):
        write_json(tmp_path / name, score(corpus[::order], ORACLE, decoding, computing))
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
    assert read_record(tmp_path / "a", Scores) == scores
    only_empty = score([instance(0, "", ())], None, decoding)
    write_json(tmp_path / "a", only_empty)
    assert read_record(tmp_path / "a", Scores) == only_empty


def test_instances_log_has_simulevals_keys_in_words():
    record = json.loads(to_json(CORPUS[1]))
    assert set(record) == KEYS | {"source_length", "subword_delays"}
    assert record["delays"] == [1, 4]
    assert (record["prediction_length"], record["source_length"]) == (2, 4)


def test_instances_log_round_trip(tmp_path):
    odd = Instance(9, "Öl \u2028 „x“", 'a "b" \\', "é\u2028ß", (1, 2))
    write_instances(tmp_path / "instances.log", [odd, *CORPUS[::-1]])
    back = read_instances(tmp_path / "instances.log")
    assert [i.index for i in back] == [0, 1, 2, 3, 9]
    assert back[-1] == odd
    in_words = [replace(i, subword_delays=(), before_end=0) for i in CORPUS]
    assert [to_json(i) for i in back[:-1]] == [to_json(i) for i in in_words]
    assert score(back[:-1])["paper", "word"] == score(CORPUS)["paper", "word"]
    assert value(score(back), "DAL", "subword") is None


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ('{"index": 1, "predi', "line 2"),
        ('{"index": 1}', "Field required"),
        (
            to_json(CORPUS[1]).replace("[1, 4]", '[1, "4"]'),
            "delays.1: Input should be",
        ),
        (to_json(CORPUS[1]).replace("[1, 4]", "[1]"), "1 delays for the 2 words"),
    ],
)
def test_a_damaged_line_is_named(tmp_path, line, said):
    path = tmp_path / "instances.log"
    path.write_text(to_json(CORPUS[0]) + "\n" + line + "\n")
    with pytest.raises(UserError, match="line 2") as caught:
        read_instances(path)
    assert said in str(caught.value)
    assert str(path) in str(caught.value)


@pytest.mark.parametrize(
    "elapsed",
    [
        (3.0, 4.0, 5.0),  # for four words
        (3.0, 4.0, 5.0, float("nan")),
        (3.0, 5.0, 4.5, 6.0),  # one falls
        (2.9, 4.0, 5.0, 6.0),  # before its delay
    ],
)
def test_elapsed_times_that_cannot_be(tmp_path, elapsed):
    with pytest.raises(ValueError, match="'elapsed' is"):
        instance(0, elapsed=elapsed)
    record = json.loads(to_json(CORPUS[0])) | {"elapsed": elapsed}
    (tmp_path / "instances.log").write_text(json.dumps(record) + "\n")
    with pytest.raises(UserError, match=r"line 1: .*elapsed"):
        read_instances(tmp_path / "instances.log")


@pytest.mark.parametrize(
    ("piece_delays", "ends", "source_words", "expected"),
    [
        ([1, 2, 3], [1, 2, 3], [1, 2, 3], [1, 2, 3]),  # one subword a word
        ([1, 2, 4], [2, 3], [1, 1, 2, 2], [1, 2]),  # written with the last subword
        ([1, 3], [1, 2], [1, 1, 2, 2, 2], [1, 2]),  # a word arrives whole
        ([0, 0, 2], [1, 3], [1, 1], [0, 1]),  # nothing read
        ([2, 3], [1, 2], [1, 2], [2, 2]),  # EOS adds nothing
        ([], [], [1, 2], []),
        ([1], [1], [], [0]),
    ],
)
def test_word_delays(piece_delays, ends, source_words, expected):
    spans = enumerate(pairwise([0, *ends]), 1)
    target = WordMap(word for word, (start, end) in spans for _ in range(start, end))
    assert target.ends == ends
    assert [*target.delays(piece_delays, WordMap(source_words))] == expected


def test_a_sentence_that_took_nothing_back_counts_in_the_erasure() -> None:
    rows = [Instance(n, "a b", "A B", "A B", (1, 2), erased=n) for n in range(2)]
    assert score(rows).erasure.value == 1 / 4


def test_the_pace_of_a_reference_in_subwords_is_that_of_its_subwords():
    """The reference has 2 words and 8 subwords; AL and LAAL by hand."""
    one = Instance(0, "x y", "A B", "a b", (1, 2), (1, 3, 4, 4), 0, 4, 8)
    found = score([one])["paper", "subword"]
    assert found["AL_ref"].value == pytest.approx((1 + (3 - 4 / 8) + (4 - 2 * 4 / 8)) / 3)
    assert found["LAAL"].value == found["AL_ref"].value


def test_figures_do_not_depend_on_how_many_sentences_are_counted_at_once(monkeypatch):
    rows = [Instance(n, "x y z", "A B", "a b", (n % 3 + 1, 3)) for n in range(7)]
    whole = score(rows)
    monkeypatch.setattr(module, "_ROWS_AT_ONCE", 2)
    assert score(rows) == whole
