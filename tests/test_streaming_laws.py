"""Every mechanism of `conf/mechanism` obeys the laws of streams on every model."""

from __future__ import annotations

import pytest

import zoo
from simulmt.decoding.greedy import greedy
from simulmt.decoding.incremental import SentenceStream
from simulmt.decoding.streaming import stream
from simulmt.laws import LAWS, Law, VacuousError, check
from simulmt.laws.of_streams import decoded_in_every_way, stepwise_encoding_is_encoding
from zoo import MECHANISMS, OFFLINE, STREAMING

OF_STREAMS = [law for law in LAWS if law.__module__.endswith("of_streams")]


@pytest.mark.parametrize("law", OF_STREAMS, ids=lambda law: law.__name__)
@pytest.mark.parametrize(("name", "kind"), zoo.pairs(STREAMING))
def test_every_mechanism_obeys(law: Law, name: str, kind: str) -> None:
    case = zoo.case(MECHANISMS[name], kind)
    if name == zoo.READS_ALL and law is not stepwise_encoding_is_encoding:
        with pytest.raises(VacuousError):
            check(law, case, kind)
    else:
        check(law, case, kind)


@pytest.mark.parametrize(("name", "kind"), zoo.pairs(OFFLINE))
def test_what_does_not_stream_listens_too(name: str, kind: str) -> None:
    check(stepwise_encoding_is_encoding, zoo.case(MECHANISMS[name], kind), kind)


@pytest.mark.parametrize("name", ["wait_k", "milk", "mma_h"])
@pytest.mark.parametrize("kind", zoo.SMALL)
def test_a_stream_stops_where_a_batch_does(name: str, kind: str) -> None:
    """At the real limit, which heads that wait for nothing reach before the source's end."""
    made = zoo.model(MECHANISMS[name], 1, kind)
    source, mask = zoo.sentences(6, 9, seed=0)
    decoded = [*decoded_in_every_way(made, source, mask)]
    lengths = [(len(one.tokens), 2 * max(one.delays, default=0) + 20) for one, _ in decoded]
    assert any(written == limit for written, limit in lengths), "some should reach the limit"


@pytest.mark.parametrize("kind", ["transformer", "rnmt_plus"])
def test_a_bidirectional_encoder_can_be_fed_live_too(kind: str) -> None:
    made = zoo.model(zoo.options("soft"), kind=kind, encoder="bidirectional")
    source, mask = zoo.sentences(1, 6)
    live = SentenceStream(made)
    for token in source[0].tolist():
        live.read_word([token])
    assert live.written == greedy(made, source, mask)[0] == stream(made, source[0].tolist())
