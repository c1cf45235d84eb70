"""The laws that every mechanism of `conf/mechanism` obeys in training and at single steps.

`test_streaming_laws.py` has those of whole decodings. Everything runs in float64, where 1e-9 is far
above rounding and far below any real difference.
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
from zoo import LEARNED, MECHANISMS, SIZES

NEAR = {"rtol": 0, "atol": 1e-9}
every = pytest.mark.parametrize("name", MECHANISMS)
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
