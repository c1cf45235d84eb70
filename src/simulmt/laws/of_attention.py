"""Laws of one attention in training: the first `Attention` of a model."""

from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from simulmt.attention import TRAINED, Attention, Memory, Plan
from simulmt.attention.plan import Expected, Stops, reweighted
from simulmt.attention.spans import Span
from simulmt.laws.case import NEAR, Case, VacuousError, demand, same
from simulmt.laws.sentences import sentences, targets


class Layer(NamedTuple):
    """An attention and the arguments of its call."""

    attention: Attention
    queries: Float[Tensor, "B T D"]
    memory: Memory
    clocked: Plan | None
    """The clock's plan; None where the attention's schedule plans."""

    def plan(self) -> Plan:
        """Return the plan of the clock, or a new one of the schedule."""
        if self.clocked is not None:
            return self.clocked
        schedule = self.attention.schedule
        assert schedule is not None, "where no clock decides, a schedule does"
        start = schedule.initial_state(self.memory)
        return schedule.plan(self.queries, self.memory, start, TRAINED)

    def in_expectation(self, plan: Plan) -> Plan:
        """Return the same plan, with known stops as an alignment that is 1 there."""
        if not isinstance(plan.alignment, Stops):
            return plan
        position = plan.alignment.position.expand(-1, self.attention.heads, -1)
        alpha = torch.nn.functional.one_hot(position - 1, self.memory.mask.shape[1]).double()
        return plan._replace(alignment=Expected(alpha))

    def contexts(self, plan: Plan | None) -> Float[Tensor, "B T D"]:
        """Return the contexts that the attention gives to the decoder."""
        return self.attention(self.queries, self.memory, None, plan, TRAINED).context  # type: ignore[no-any-return]


def first_layer(case: Case) -> Layer:
    """Return the first attention of the case's model.

    Raises:
        VacuousError: the model has none, so that no law would look at anything.
    """
    made = case.model()
    attention = next((part for part in made.modules() if isinstance(part, Attention)), None)
    if attention is None:
        raise VacuousError("the model has no `Attention`, as `mechanism.attention(...)` builds it")
    source, _ = sentences(3, 7, vocabulary=made.vocabulary)
    mask = torch.arange(7) < torch.tensor([7, 4, 1])[:, None]
    encoded = made.encode(source, mask)
    clocked = made.clock.plan(encoded, targets(3, 5, vocabulary=made.vocabulary), TRAINED)
    steps = 5
    if clocked is not None and isinstance(clocked.alignment, Stops):
        steps = clocked.alignment.position.shape[-1]  # more if tokens have several states
    queries = torch.randn(3, steps, encoded.states.shape[-1], dtype=torch.float64)
    return Layer(attention, 4 * queries, attention.memory(encoded), clocked)


@torch.no_grad()
def attention_is_a_distribution(case: Case) -> None:
    """Attention and alignment are distributions over real tokens.

    They may sum to less than 1 in two cases: the schedule `leaks`, or the span's `traits` say that
    it dampens.
    """
    layer = first_layer(case)
    plan = layer.in_expectation(layer.plan())
    alpha, beta = layer.attention.expect(layer.queries, layer.memory, plan)
    padding = ~layer.memory.mask[:, None, None]
    for name, weights in (("alignment", alpha), ("attention", beta)):
        demand((weights >= 0).all(), f"Some {name} is negative.")
        demand((weights.masked_select(padding) == 0).all(), f"Some {name} is on padding.")
    mass, stood = beta.sum(-1), alpha.sum(-1)
    if layer.attention.traits.dampens:
        demand((mass <= stood + NEAR).all(), "Attention sums to more than the alignment.")
    else:
        same(mass, stood, "Attention should sum to what the alignment sums to")
    if not case.leaks:
        same(stood, torch.ones_like(stood), "The alignment of each step should sum to 1")
    demand((stood <= 1 + NEAR).all(), "The alignment of a step sums to more than 1.")
    if case.leaks and (stood > 0.999).all():
        raise VacuousError("no head runs off the end")


@torch.no_grad()
def rows_are_the_whole(case: Case) -> None:
    """One call for each target step gives the same as one call for all steps."""
    attention, queries, memory, clocked = first_layer(case)
    whole = attention(queries, memory, None, clocked, TRAINED)
    state, rows = None, []
    for step, query in enumerate(queries.unbind(1)):
        now = None if clocked is None else clocked.steps(step, step + 1)
        row = attention(query[:, None], memory, state, now, TRAINED)
        state = row.state
        rows.append(row.context)
    same(torch.cat(rows, 1), whole.context, "The contexts differ")
    if clocked is None:
        same(state, whole.state, "The states after the last step differ")


@torch.no_grad()
def attention_is_an_expectation(case: Case) -> None:
    """Expected attention is the mean of what `look` shows, over all places of a head."""
    layer = first_layer(case)
    attention, queries, memory, _ = layer
    plan = layer.in_expectation(layer.plan())
    alpha, beta = attention.expect(queries, memory, plan)
    energy = attention.score(queries, memory.soft_keys)
    defined = Span.expected(attention.span, queries, alpha, energy, memory.mask)
    same(beta, reweighted(defined, plan.weight), "The attention differs")


@torch.no_grad()
def known_stops_are_certain(case: Case) -> None:
    """Known stops, if a mechanism plans them, give the contexts of an alignment that is 1 there."""
    layer = first_layer(case)
    plan = layer.plan()
    if isinstance(plan.alignment, Stops):
        general = layer.contexts(layer.in_expectation(plan))
        same(layer.contexts(plan), general, "The contexts differ")
