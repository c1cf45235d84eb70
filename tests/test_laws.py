"""The laws that every mechanism of `conf/mechanism` obeys, in training and at inference.

Everything runs in float64, where 1e-9 is far above rounding and far below any real difference.
"""

from __future__ import annotations

import pytest
import torch

import zoo
from simulmt.attention import RECURRENT, TRAINED, TRANSFORMER, Attention, Memory, Plan, Source
from simulmt.attention.plan import Expected, Stops
from simulmt.attention.spans import Span
from simulmt.builders import build_mechanism
from simulmt.decoding.greedy import greedy
from simulmt.decoding.incremental import SentenceStream
from simulmt.decoding.policies import OWN
from simulmt.decoding.streaming import stream
from simulmt.errors import UserError
from simulmt.models.model import Model
from zoo import LEARNED, MECHANISMS, SIZES, STREAMING

NEAR = {"rtol": 0, "atol": 1e-9}
every = pytest.mark.parametrize("name", MECHANISMS)
CAUSAL = {"encoder": "causal"}
PLAIN = ("transformer", "rnmt_plus", "luong")
READS_ALL = "luong_local_m"  # its window is longer than these sentences
streaming = pytest.mark.parametrize("name", STREAMING)
everywhere = pytest.mark.parametrize("kind", SIZES)
usually = pytest.mark.parametrize("usual", [TRANSFORMER, RECURRENT], ids=["dot", "additive"])


def attention(name: str, usual=TRANSFORMER, dim: int = 16, heads: int = 4, **options) -> Attention:
    torch.manual_seed(0)
    mechanism = build_mechanism(MECHANISMS[name] | options)
    return mechanism.attention(dim, heads, usual).double().eval()


def source_and_queries(B: int = 3, T: int = 5, S: int = 7, dim: int = 16):
    torch.manual_seed(2)
    mask = torch.arange(S) < torch.tensor([S, 4, 1])[:B, None]
    finished = torch.ones(B, dtype=torch.bool)
    states = torch.randn(B, S, dim, dtype=torch.float64)
    tokens = torch.full((B, S), 5)
    return Source(tokens, states, mask, finished), 4 * torch.randn(B, T, dim, dtype=torch.float64)


def plan_of(options: dict, layer: Attention, source: Source, queries, memory: Memory) -> Plan:
    """What the mechanism's clock or the layer's schedule plans."""
    clock = build_mechanism(options).clock(dim=16)
    if clock is not None:
        return clock.plan(source, torch.full(queries.shape[:2], 5), TRAINED)
    return layer.schedule.plan(queries, memory, layer.schedule.initial_state(memory), TRAINED)


def in_expectation(plan: Plan, layer: Attention, memory: Memory) -> Plan:
    """The same plan with known stops as an alignment that is 1 there."""
    if not isinstance(plan.alignment, Stops):
        return plan
    position = plan.alignment.position.expand(-1, layer.heads, -1)
    alpha = torch.nn.functional.one_hot(position - 1, memory.mask.shape[1]).double()
    return plan._replace(alignment=Expected(alpha))


def expected(name: str, layer: Attention, source: Source, queries, memory: Memory):
    """`alpha` and `beta`, whether the mechanism has learned to stop or knows when."""
    plan = plan_of(MECHANISMS[name], layer, source, queries, memory)
    return layer.expect(queries, memory, in_expectation(plan, layer, memory))


@every
@usually
def test_beta_is_a_distribution_over_real_tokens(name, usual):
    layer = attention(name, usual)
    source, queries = source_and_queries()
    memory, mask = layer.memory(source), source.mask
    alpha, beta = expected(name, layer, source, queries, memory)
    for weights in (alpha, beta):
        assert (weights >= 0).all()
        assert (weights.masked_select(~mask[:, None, None]) == 0).all()
    if (
        "luong_local_p" in name or "gaussian" in name or "predicted" in name
    ):  # a Gaussian takes some
        assert (beta.sum(-1) <= alpha.sum(-1)).all()
        return
    torch.testing.assert_close(beta.sum(-1), alpha.sum(-1), **NEAR)
    if name.endswith("leaky"):
        assert (beta.sum(-1) <= 1 + 1e-12).all()
        assert (beta.sum(-1) < 0.999).any()
    else:
        torch.testing.assert_close(beta.sum(-1), torch.ones_like(beta.sum(-1)), **NEAR)


@every
@usually
def test_one_call_equals_one_call_per_row(name, usual):
    layer = attention(name, usual)
    source, queries = source_and_queries()
    memory, rows = layer.memory(source), []
    plan = None
    if layer.schedule is None:
        plan = plan_of(MECHANISMS[name], layer, source, queries, memory)
    whole = layer(queries, memory, None, plan, TRAINED)
    state = None
    for step, query in enumerate(queries.split(1, 1)):
        now = None if plan is None else plan.steps(step, step + 1)
        row = layer(query, memory, state, now, TRAINED)
        state = row.state
        rows.append(row.context)
    torch.testing.assert_close(torch.cat(rows, 1), whole.context, **NEAR)
    if plan is None:
        torch.testing.assert_close(state, whole.state, **NEAR)


@every
@usually
def test_expected_attention_is_an_expectation(name, usual):
    layer = attention(name, usual)
    source, queries = source_and_queries()
    memory = layer.memory(source)
    alpha, beta = expected(name, layer, source, queries, memory)
    energy = layer.score(queries, memory.soft_keys)
    defined = Span.expected(layer.span, queries, alpha, energy, source.mask)
    torch.testing.assert_close(beta, defined, **NEAR)


SPAN_OPTIONS = [
    {"span": "lookback", "score": "usual"},
    {"span": "stopped"},
    {"span": "chunk", "chunk": 2, "score": "usual"},
    {"span": "window", "window": 2, "gaussian": False, "score": "dot"},
    {"span": "window", "window": 2, "gaussian": True, "score": "concat"},
    {"span": "predicted_window", "window": 2, "score": "location"},
]


@pytest.mark.parametrize("name", ["soft", "wait_k"])
@pytest.mark.parametrize("span", SPAN_OPTIONS)
@usually
def test_fixed_schedules_collapse_to_a_masked_softmax(name, span, usual):
    chosen = {key: value for key, value in MECHANISMS[name].items() if key != "score"}
    torch.manual_seed(0)
    layer = build_mechanism(chosen | span).attention(16, 4, usual).double().eval()
    source, queries = source_and_queries()
    memory = layer.memory(source)
    plan = plan_of(chosen | span, layer, source, queries, memory)
    general = layer(queries, memory, None, in_expectation(plan, layer, memory), TRAINED).context
    torch.testing.assert_close(layer(queries, memory, None, plan, TRAINED).context, general, **NEAR)


@every
@everywhere
def test_more_padding_changes_nothing(name, kind):
    made = zoo.model(MECHANISMS[name], kind=kind)
    source, mask = zoo.sentences(4, 8)
    target = torch.randint(4, zoo.VOCABULARY, (4, 6))
    pad = torch.nn.functional.pad
    padded = made(pad(source, (0, 5)), pad(mask, (0, 5)), pad(target, (0, 3)))
    torch.testing.assert_close(padded.logits[:, :6], made(source, mask, target).logits, **NEAR)
    padded = greedy(made, pad(source, (0, 5)), pad(mask, (0, 5)), zoo.BRIEF)
    assert padded == greedy(made, source, mask, zoo.BRIEF)


@every
@everywhere
def test_saturated_training_equals_hard_decoding(name, kind):
    made = zoo.sharpen(zoo.model(MECHANISMS[name], kind=kind), 1e6)
    source, mask = zoo.sentences(12, 9)
    target = torch.randint(4, zoo.VOCABULARY, (12, 7))
    steps, read = zoo.forced_steps(made, source, mask, target)
    # what is asked for is 1e-5; in float64 there is no reason for more than rounding
    torch.testing.assert_close(steps, made(source, mask, target).logits, rtol=0, atol=1e-8)
    assert (read.diff(dim=1) >= 0).all()
    assert (read <= mask.sum(1, keepdim=True)).all()
    if name in LEARNED:
        early = read < mask.sum(1, keepdim=True)
        assert early.any(), "without early decisions the law says nothing"


@pytest.mark.parametrize("kind", ["transformer", "rnmt_plus"])
def test_a_bidirectional_encoder_can_be_fed_live_too(kind):
    made = zoo.model(zoo.options("soft"), kind=kind, encoder="bidirectional")
    source, mask = zoo.sentences(1, 6)
    live = SentenceStream(made)
    for token in source[0].tolist():
        live.read(token)
    assert live.written == greedy(made, source, mask)[0] == stream(made, source[0].tolist())


@streaming
@everywhere
def test_batched_decoding_is_streaming(name, kind):
    """Brief hypotheses do: what a step writes depends on what was read and written before.

    The real limit on their length has a test of its own.
    """
    early = late = False
    for seed in range(3):
        made = zoo.model(MECHANISMS[name], seed, kind)
        source, mask = zoo.sentences(6, 9, seed)
        for hypothesis, length in decode_in_every_way(made, source, mask, zoo.BRIEF):
            early |= any(delay < length for delay in hypothesis.delays)
            late |= hypothesis.delays.count(length) > 1
    assert early or name == READS_ALL, "without early decisions the law says nothing"
    assert late or name.endswith("leaky"), "some should write on after the source's end"


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
        logits, read = zoo.forced_steps(made, source, mask, target)
        handle.remove()
        for step, delay in enumerate(read[0].tolist()):
            (gradient,) = torch.autograd.grad(
                logits[0, step].logsumexp(0), embedded[0], retain_graph=True
            )
            assert (gradient[0, delay:] == 0).all()
            influenced |= bool((gradient[0, :delay] != 0).any())
            early |= delay < 9
    assert early or name == READS_ALL, "without early decisions the law says nothing"
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
    assert settled or name == READS_ALL, "without early decisions the law says nothing"


@pytest.mark.parametrize("name", [*MECHANISMS, "mocha-of-1"])
@everywhere
def test_every_parameter_receives_a_gradient(name, kind):
    chosen = MECHANISMS.get(name) or zoo.options("mocha") | {"chunk": 1}
    made = zoo.model(chosen, kind=kind).train()
    source, mask = zoo.sentences(4, 9)
    target = torch.randint(4, zoo.VOCABULARY, (4, 7))
    out = made(source, mask, target)
    out.logits.log_softmax(-1)[..., 5].sum().backward()
    silent = [n for n, p in made.named_parameters() if p.grad is None or not p.grad.any()]
    assert silent == []


def with_weights_of(one: dict, other: dict, **overrides):
    """Both mechanisms' outputs with the same weights, as far as they have the same parameters."""
    first, second = zoo.model(one, **overrides), zoo.model(other, **overrides)
    second.load_state_dict(first.state_dict(), strict=False)
    source, mask = zoo.sentences(4, 9)
    target = torch.randint(4, zoo.VOCABULARY, (4, 7), generator=torch.Generator().manual_seed(3))

    def outputs(made: Model):
        return made(source, mask, target).logits, zoo.forced_steps(made, source, mask, target)[0]

    return outputs(first), outputs(second)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        pytest.param(
            zoo.options("mocha") | {"chunk": 1}, zoo.options("monotonic"), id="mocha(1)=monotonic"
        ),
        pytest.param(zoo.options("mocha") | {"chunk": 9}, zoo.options("milk"), id="mocha(S)=milk"),
        pytest.param(
            zoo.options("mma_c") | {"chunk": 1}, zoo.options("mma_h"), id="mma_c(1)=mma_h"
        ),
        pytest.param(
            zoo.options("mma_c") | {"chunk": 9}, zoo.options("mma_il"), id="mma_c(S)=mma_il"
        ),
        pytest.param(zoo.options("wait_k") | {"k": 9}, zoo.options("soft"), id="wait_k(S)=soft"),
        pytest.param(
            zoo.options("luong_local_m") | {"window": 9},
            zoo.options("luong_global"),
            id="local_m(S)=global",
        ),
    ],
)
@everywhere
def test_one_mechanism_is_a_case_of_another(one, other, kind):
    for a, b in zip(*with_weights_of(one, other, kind=kind), strict=True):
        torch.testing.assert_close(a, b, **NEAR)


@pytest.mark.parametrize(
    ("many", "one"), [("mma_h", "monotonic"), ("mma_c", "mocha"), ("mma_il", "milk")]
)
@everywhere
def test_multihead_attention_with_one_head_is_its_parent(many, one, kind):
    pair = with_weights_of(zoo.options(many), zoo.options(one), kind=kind, heads=1)
    for a, b in zip(*pair, strict=True):
        torch.testing.assert_close(a, b, **NEAR)


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


@pytest.mark.parametrize("norm", ["pre", "post"])
def test_both_norms_train_and_decode_alike(norm):
    made = zoo.sharpen(zoo.model(zoo.options("mma_il"), norm=norm), 1e6)
    source, mask = zoo.sentences(4, 9)
    target = torch.randint(4, zoo.VOCABULARY, (4, 7))
    steps, _ = zoo.forced_steps(made, source, mask, target)
    torch.testing.assert_close(steps, made(source, mask, target).logits, rtol=0, atol=1e-8)


@pytest.mark.parametrize("kind", ["transformer", "rnmt_plus"])
def test_bidirectional_encoder_ignores_padding(kind):
    made = zoo.model(zoo.options("soft"), kind=kind, encoder="bidirectional")
    source, mask = zoo.sentences(4, 9)
    pad = torch.nn.functional.pad
    states = made.encode(source, mask).states
    padded = made.encode(pad(source, (0, 4)), pad(mask, (0, 4))).states[:, :9]
    torch.testing.assert_close(padded[mask], states[mask], **NEAR)
    changed = made.encode(torch.cat([source[:, :8], source[:, 8:] + 1], 1), mask).states
    assert (changed[0, 0] != states[0, 0]).any(), "it should see what comes later"


@pytest.mark.parametrize("encoder", ["causal", "bidirectional", "auto"])
@pytest.mark.parametrize("kind", ["transformer", "rnmt_plus"])
def test_only_offline_mechanisms_may_look_ahead(encoder, kind):
    made = zoo.model(zoo.options("soft"), kind=kind, encoder=encoder)
    source, mask = zoo.sentences(1, 6)
    other = torch.cat([source[:, :4], source[:, 4:] + 1], 1)
    sees = (made.encode(source, mask).states != made.encode(other, mask).states)[0, 0].any()
    assert sees == (encoder != "causal")
    if encoder == "bidirectional":
        with pytest.raises(UserError, match="streams"):
            zoo.model(zoo.options("wait_k"), kind=kind, encoder=encoder)


@everywhere
def test_local_m_waits_like_wait_k(kind):
    made = zoo.model(zoo.options("luong_local_m") | {"window": 3}, kind=kind)
    waiting = zoo.model(zoo.options("wait_k") | {"k": 4}, kind=kind)
    source, mask = zoo.sentences(3, 9)
    target = torch.full((3, 12), 7)
    _, read = zoo.forced_steps(made, source, mask, target)
    assert torch.equal(read, zoo.forced_steps(waiting, source, mask, target)[1])


@pytest.mark.parametrize("feeding", [True, False])
def test_luong_trains_and_decodes_alike_with_and_without_input_feeding(feeding):
    made = zoo.model(zoo.options("milk"), kind="luong", input_feeding=feeding)
    made = zoo.sharpen(made, 1e6)
    source, mask = zoo.sentences(4, 9)
    target = torch.randint(4, zoo.VOCABULARY, (4, 7))
    steps, _ = zoo.forced_steps(made, source, mask, target)
    torch.testing.assert_close(steps, made(source, mask, target).logits, rtol=0, atol=1e-8)


@pytest.mark.parametrize(("k", "rate"), [(1, 1.0), (3, 1.0), (2, 1.1), (2, 0.5), (100, 1.0)])
@everywhere
def test_wait_k_schedule(k, rate, kind):
    made = zoo.model(zoo.options("wait_k") | {"k": k, "emission_rate": rate}, kind=kind)
    source, mask = zoo.sentences(2, 40)
    _, read = zoo.forced_steps(made, source, mask, torch.full((2, 60), 7))
    tenths = round(10 * rate)
    for row, length in zip(read.tolist(), mask.sum(1).tolist(), strict=True):
        # floor((i - 1) / r) in whole numbers, since 33 / 1.1 is 29.999... in floating point
        assert row == [min(k + 10 * i // tenths, length) for i in range(60)]


def test_noise_is_a_standard_deviation_and_training_only():
    layer = attention("monotonic", noise=4.0, dim=64, heads=1)
    source, queries = source_and_queries(T=1, dim=64)
    memory = layer.memory(source)
    still = layer.schedule.logits(queries, memory)
    assert torch.equal(still, layer.schedule.logits(queries, memory))
    layer.train()
    energy = layer.schedule.energies(queries, memory)[0, 0, 0, 0]
    first = torch.stack([layer.schedule.logits(queries, memory)[0, 0, 0, 0] for _ in range(4000)])
    drawn = first - energy
    # 4000 draws: the standard error of a standard deviation of 4 is 4 / sqrt(8000) = 0.045
    assert abs(drawn.std().item() - 4.0) < 0.2
    assert abs(drawn.mean().item()) < 0.3
