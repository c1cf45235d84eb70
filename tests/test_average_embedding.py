"""The average embedding layer against attention to `z_j + f_g`, written out."""

import math

import pytest
import torch

import zoo
from simulmt.attention import Source
from simulmt.errors import UserError
from simulmt.models.average_embedding import AverageEmbedding, GuidedAttention
from simulmt.parts.builders import build_mechanism

DEFINED = [
    pytest.param(name, marks=[pytest.mark.slow] if "-" in name else [])
    for name, chosen in zoo.MECHANISMS.items()
    if zoo.averages(chosen)
]
"""The variants of a file are slow tests."""


def test_the_averages_are_those_of_every_prefix():
    torch.manual_seed(0)
    layer = AverageEmbedding(4).double()
    x = torch.randn(2, 5, 4).double()
    zero = torch.zeros(2, dtype=torch.long)
    whole, total = layer(x, x.new_zeros(2, 4), zero)
    for i in range(1, 6):
        torch.testing.assert_close(whole[:, i - 1], layer.project(x[:, :i].mean(1)))
    first, sum_so_far = layer(x[:, :2], x.new_zeros(2, 4), zero)
    rest, total_again = layer(x[:, 2:], sum_so_far, zero + 2)
    torch.testing.assert_close(torch.cat([first, rest], 1), whole)
    torch.testing.assert_close(total, total_again)


@pytest.mark.parametrize("name", DEFINED)
def test_a_hard_step_is_attention_to_moved_states(name):
    """Every score is taken anew over z + f_g, which is what the paper says and we never do."""
    torch.manual_seed(1)
    mechanism = build_mechanism(zoo.MECHANISMS[name])
    plain = mechanism.attention(dim=16, heads=4).double()
    guided = GuidedAttention(plain).eval()
    z, f = torch.randn(2, 3, 7, 16).double()
    mask, finished = torch.ones(3, 7, dtype=torch.bool), torch.ones(3, dtype=torch.bool)
    query = 3 * torch.randn(3, 1, 16).double()
    source = Source(torch.full((3, 7), 5), z, mask, finished, averages=f)
    memory = guided.memory(source)
    if mechanism.clocked:
        clock = mechanism.clock(16, lambda tokens, *_: torch.randn(*tokens.shape, 16).double())
        if isinstance(clock, torch.nn.Module):
            clock.double()
        stand = clock.step(clock.start(source), source.tokens[:, 0])
    else:
        schedule = plain.schedule
        stand = schedule.step(query, memory, schedule.initial_position(memory))
    share = torch.ones(3, 1, 7).double() if stand.weight is None else stand.weight
    stepped = guided.step(query, memory, None, stand if mechanism.clocked else None)
    for row in range(3):
        one = slice(row, row + 1)
        moved = torch.zeros(1, 1, 16).double()
        stand = stepped.position[one]
        look = plain.span.look(query[one], stand[..., None], 7)
        for head, position in enumerate(stand[0].tolist()):
            read = min(position + plain.traits.ahead, 7)
            states = z[one] + (f[one, read - 1 : read] if position else 0)
            energy = plain.score(query[one], plain.score.keys(states))
            energy = energy.masked_fill(~look.visible, -math.inf) + share[row].log()
            weight = energy.softmax(-1).nan_to_num()[0, head]  # (1, S)
            value = plain.value(states)[0].view(7, plain.heads, -1)[:, head]
            moved[0, 0].view(plain.heads, -1)[head] = (weight @ value)[0]
        torch.testing.assert_close(stepped.context[one], plain.output(moved))


@pytest.mark.parametrize("name", DEFINED)
def test_without_weights_it_is_the_plain_transformer(name):
    guided = zoo.model(zoo.MECHANISMS[name], average_embedding=True)
    plain = zoo.model(zoo.MECHANISMS[name])
    kept = {n: v for n, v in guided.state_dict().items() if not n.startswith("average.")}
    plain.load_state_dict({n.replace("attention.attention", "attention"): kept[n] for n in kept})
    torch.nn.init.zeros_(guided.average.project.weight)
    source, mask = zoo.sentences(4, 9)
    target = torch.full((4, 6), 7)
    one, other = guided(source, mask, target), plain(source, mask, target)
    torch.testing.assert_close(one.logits, other.logits)
    steps, again = (zoo.forced_steps(m, source, mask, target) for m in (guided, plain))
    torch.testing.assert_close(steps[0], again[0])
    assert (steps[1] == again[1]).all()


@pytest.mark.parametrize(
    ("name", "changes"),
    [("luong_local_p", {}), ("milk-gaussian", {}), ("milk", {"score": "additive"})],
)
def test_where_it_is_not_defined_it_is_an_error(name, changes):
    with pytest.raises(UserError, match=r"average_embedding|linear"):
        zoo.model(zoo.MECHANISMS[name] | changes, average_embedding=True)
