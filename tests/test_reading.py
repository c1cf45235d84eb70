from __future__ import annotations

import pytest

from simulmt.decoding.instance import Instance
from simulmt.scoring.score import attention_span, score


def instance(index, delays, positions, length=5):
    text = " ".join("w" * len(delays))
    sides = {"subword_delays": delays, "subword_source_length": length}
    return Instance(index, "a b c d e", "r", text, delays, positions=positions, **sides)


def test_the_span_is_from_the_nearest_head_to_the_furthest():
    assert attention_span(instance(0, (2, 4), ((1, 2, 2), (1, 4, 3)))) == (1 + 3) / 2
    assert attention_span(instance(0, (2,), ((2, 2),))) == 0
    assert attention_span(instance(0, (2,), ((2,),))) == 0  # one head


def test_a_head_at_eos_or_beyond_counts_as_one_at_the_last_subword():
    assert attention_span(instance(0, (5,), ((6, 3),))) == 2
    assert attention_span(instance(0, (5,), ((0, 3),))) == 2
    assert attention_span(instance(0, (5,), ((6, 5, 0),))) == 0


def test_without_positions_there_is_no_span():
    for positions in ((), ((), ())):
        assert attention_span(instance(0, (2, 4), positions)) is None
        assert score([instance(0, (2, 4), positions)]).attention_span is None


def test_the_span_of_a_corpus_is_the_mean_over_its_sentences():
    corpus = [
        instance(0, (2,), ((1, 2),)),
        instance(1, (4, 4), ((1, 4), (1, 4))),
        instance(2, (), ()),
    ]
    span = score(corpus).attention_span
    assert span.value == pytest.approx((1 + 3) / 2)
    assert span.signature.startswith("span|h:all|u:subword|eos:no|v:")


def test_initial_delays_in_words_and_subwords():
    corpus = [instance(i, delays, ()) for i, delays in enumerate([(3, 4), (3,), (9, 9), ()])]
    found = score(corpus).initial_delays
    assert found == {"word": {3: 2, 5: 1}, "subword": {3: 2, 5: 1}}  # clipped to 5
