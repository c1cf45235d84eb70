"""The laws of streaming that every mechanism of `conf/mechanism` obeys on every model.

Everything runs in float64, where 1e-9 is far above rounding and far below any real difference.
"""

from __future__ import annotations

import pytest
import torch

import zoo
from simulmt.decoding.greedy import greedy
from simulmt.decoding.incremental import SentenceStream
from simulmt.decoding.policies import OWN
from simulmt.decoding.streaming import stream
from simulmt.models.model import Model
from zoo import MECHANISMS, SIZES, STREAMING

NEAR = {"rtol": 0, "atol": 1e-9}
CAUSAL = {"encoder": "causal"}
PLAIN = ("transformer", "rnmt_plus", "luong")
READS_ALL = "luong_local_m"  # its window is longer than these sentences
every = pytest.mark.parametrize("name", MECHANISMS)
streaming = pytest.mark.parametrize("name", STREAMING)
everywhere = pytest.mark.parametrize("kind", SIZES)


@streaming
@everywhere
def test_batched_decoding_is_streaming(name, kind):
    """Brief hypotheses do: what a step writes depends on what was read and written before.

    The real limit on their length has a test of its own.
    """
    early = late = False
    for seed in range(9):
        made = zoo.model(MECHANISMS[name], seed, kind)
        source, mask = zoo.sentences(4, 9, seed)
        for hypothesis, length in decode_in_every_way(made, source, mask, zoo.BRIEF):
            early |= any(delay < length for delay in hypothesis.delays)
            late |= hypothesis.delays.count(length) > 1
        early |= name == READS_ALL
        late |= name.endswith("leaky")
        if early and late:
            break
    assert early, "without early decisions the law says nothing"
    assert late, "some should write on after the source's end"


@pytest.mark.parametrize("name", ["wait_k", "milk", "mma_h"])
@pytest.mark.parametrize("kind", PLAIN)
def test_a_stream_stops_where_a_batch_does(name, kind):
    """At the real limit, which heads that wait for nothing reach before the source's end."""
    made = zoo.model(MECHANISMS[name], kind=kind)
    source, mask = zoo.sentences(6, 9, seed=0)
    decoded = [*decode_in_every_way(made, source, mask, OWN)]
    lengths = [(len(one.tokens), 2 * max(one.delays, default=0) + 20) for one, _ in decoded]
    assert any(written == limit for written, limit in lengths), "some should reach the limit"


def decode_in_every_way(made: Model, source, mask, policy):
    """Hypotheses and lengths of the sources: the batch's, if a stream and the row alone agree."""
    batch = greedy(made, source, mask, policy)
    for row, length, hypothesis in zip(source, mask.sum(1).tolist(), batch, strict=True):
        tokens = row[:length].tolist()
        assert stream(made, tokens, policy=policy) == hypothesis
        live = SentenceStream(made, policy=policy)
        for token in tokens:
            live.read(token)
        assert (live.written, live.done) == (hypothesis, True)
        assert greedy(made, row[None, :length], mask[:1, :length] | True, policy) == [hypothesis]
        yield hypothesis, length


def source_embedding(made: Model):
    """The table whose first use embeds the source."""
    return next(part for part in made.modules() if isinstance(part, torch.nn.Embedding))


@streaming
@everywhere
def test_no_peeking(name, kind):
    """Source tokens that were not read have a gradient of exactly 0 on what was written."""
    early = influenced = False
    for seed in range(3):
        made = zoo.model(MECHANISMS[name], seed, kind)
        source, mask = zoo.sentences(1, 9)
        embedded = []
        handle = source_embedding(made).register_forward_hook(
            lambda _, __, out, seen=embedded: seen.append(out.requires_grad_()) or out
        )
        target = torch.randint(4, zoo.VOCABULARY, (1, 5))
        logits, read = zoo.forced_steps(made, source, mask, target, gradients=True)
        handle.remove()
        for step, delay in enumerate(read[0].tolist()):
            (gradient,) = torch.autograd.grad(
                logits[0, step].logsumexp(0), embedded[0], retain_graph=True
            )
            assert (gradient[0, delay:] == 0).all()
            influenced |= bool((gradient[0, :delay] != 0).any())
            early |= delay < 9
        early |= name == READS_ALL
        if early and influenced:
            break
    assert early, "without early decisions the law says nothing"
    # heads that all ran off the end have seen nothing
    assert influenced or name.endswith("leaky")


@streaming
@everywhere
def test_what_comes_later_changes_nothing_written_before(name, kind):
    settled, cut = 0, 9
    for seed in range(4):
        made = zoo.model(MECHANISMS[name], seed, kind)
        source, mask = zoo.sentences(1, 16, seed=5)
        (before,) = greedy(made, source, mask, zoo.BRIEF)
        other = torch.cat([source[:, :cut], source[:, cut:-1].flip(1) % 26 + 4, source[:, -1:]], 1)
        (after,) = greedy(made, other, mask, zoo.BRIEF)
        same = sum(delay <= cut for delay in before.delays)
        assert after.tokens[:same] == before.tokens[:same]
        assert after.delays[:same] == before.delays[:same]
        settled += same
        if settled:
            break
    assert settled or name == READS_ALL, "without early decisions the law says nothing"


@everywhere
@every
def test_listening_word_by_word_is_reading_the_sentence(name, kind):
    made = zoo.model(MECHANISMS[name], kind=kind, **({} if kind == "luong" else CAUSAL))
    source, mask = zoo.sentences(3, 8)
    mask = mask | True
    whole = made.encode(source, mask)
    heard, state = None, None
    for place, token in enumerate(source.unbind(1)):
        piece, heard = made.listen(token, heard)
        for part, of_all in ((piece.states, whole.states), (piece.averages, whole.averages)):
            if part is not None and kind != zoo.REENCODING:  # where later tokens change the states
                torch.testing.assert_close(part, of_all[:, place : place + 1], **NEAR)
        if piece.prefixes is not None:
            prefix = whole.prefixes[:, place, : place + 1]
            torch.testing.assert_close(piece.prefixes[:, 0], prefix, **NEAR)
        state = made.start(piece) if state is None else made.extend(state, piece)
    start = made.start(whole._replace(finished=source[:, -1] == 3))
    token = torch.full((3,), 5)
    for _ in range(4):
        one, other = made.step(token, state), made.step(token, start)
        torch.testing.assert_close(one.logits, other.logits, **NEAR)
        assert torch.equal(one.read, other.read)
        state, start = one.state, other.state


@pytest.mark.parametrize("kind", ["transformer", "rnmt_plus"])
def test_a_bidirectional_encoder_can_be_fed_live_too(kind):
    made = zoo.model(zoo.options("soft"), kind=kind, encoder="bidirectional")
    source, mask = zoo.sentences(1, 6)
    live = SentenceStream(made)
    for token in source[0].tolist():
        live.read(token)
    assert live.written == greedy(made, source, mask)[0] == stream(made, source[0].tolist())
