"""What a new policy may do, shown by small ones in each of the three places.

An information schedule after ITST (Zhang & Feng 2022) decides inside the attention: its stops
depend on the query and on the moment, it weights attention, and it returns losses. A random clock
decides before the decoder, once a sentence for all layers, and also weights attention. A policy
after the step holds the model back. None of them touches a model, a decoder or an objective.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import pytest
import torch
from torch import Tensor

import zoo
from shapes import unchecked
from simulmt.attention import Lookback, Mechanism, Moment, Plan, Source, Stand, WaitK
from simulmt.attention.clock import Clock, ClockRecipe
from simulmt.attention.memory import Memory
from simulmt.attention.plan import NO_LOSSES, Stops, reweighted
from simulmt.attention.schedule import Schedule, ScheduleRecipe
from simulmt.attention.scores import ScoreFunction
from simulmt.laws import hold
from simulmt.models.model import Model
from simulmt.training.module import sentence_draws

NEAR = {"rtol": 0, "atol": 1e-9}  # float64: rounding only


@dataclass(frozen=True)
class Information(ScheduleRecipe):
    """Read until a layer has enough information."""

    enough: float
    learned: ClassVar[bool] = False
    dials: ClassVar[tuple[str, ...]] = ("enough",)
    losses: ClassVar[tuple[str, ...]] = ("information",)

    def build(self, dim: int, heads: int, score: Callable[[int, int], ScoreFunction]) -> Schedule:
        return InformationMatrix(self.enough, score(dim, 1))


class Progress(NamedTuple):
    position: Tensor  # (B, 1)
    steps: Tensor  # (B,)


class InformationMatrix(Schedule):
    """`T_ij = sigmoid(e_ij)`, one matrix for all heads of a layer."""

    def __init__(self, enough: float, score: ScoreFunction) -> None:
        super().__init__()
        self.enough = enough
        self.score = score

    def keys(self, states: Tensor) -> Tensor:
        return self.score.keys(states)

    def initial_state(self, memory: Memory) -> Progress:
        return Progress(torch.ones_like(memory.length)[:, None], torch.zeros_like(memory.length))

    initial_position = initial_state

    def information(self, query: Tensor, memory: Memory) -> Tensor:
        T = self.score(query, memory.selection_keys).sigmoid()  # (B, 1, T, S)
        return T.masked_fill(~memory.mask[:, None, None], 0.0)

    def enough_at(self, T: Tensor, threshold: float, before: Tensor) -> Tensor:
        stops = 1 + (T.cumsum(-1) < threshold).sum(-1)  # (B, 1, T)
        return torch.cat([before[..., None], stops], -1).cummax(-1).values[..., 1:]

    def plan(self, query: Tensor, memory: Memory, state: Progress, moment: Moment) -> Plan:
        T = self.information(query, memory)
        threshold = self.enough * moment.share  # a curriculum
        stops = self.enough_at(T, threshold, state.position).minimum(memory.length[:, None, None])
        steps = state.steps[:, None] + torch.arange(1, T.shape[2] + 1)
        real = steps <= (steps[:, -1:] if moment.lengths is None else moment.lengths[:, None])
        loss = {"information": (T[:, 0].sum(-1) * real).sum(-1) / memory.length}
        return Plan(Stops(stops), T, loss, Progress(stops[..., -1], steps[:, -1]))

    def step(self, query: Tensor, memory: Memory, state: Progress) -> Stand:
        T = self.information(query, memory)
        wanted = self.enough_at(T, self.enough, state.position)[..., 0]
        length = memory.length[:, None]
        waits = (wanted > length)[:, 0] & ~memory.finished
        position = wanted.minimum(length)
        after = Progress(position, state.steps + 1)
        return Stand(position, after, waits, weight=T[:, :, 0])


class Waiting(NamedTuple):
    written: Tensor
    mask: Tensor
    finished: Tensor


@dataclass(frozen=True)
class RandomWait(ClockRecipe, Clock):
    """Wait-k with a k for each sentence in training, and attention that fades with age."""

    most: int
    k: int = 2

    def build(self, dim: int, embed: object) -> Clock:
        return self

    def weight(self, steps: Tensor, length: int) -> Tensor:
        age = (steps[..., None] - torch.arange(length)).abs()
        return (1 / (1 + age))[:, None].double()  # (B, 1, T, S)

    def plan(self, source: Source, target: Tensor, moment: Moment) -> Plan:
        B, T = target.shape
        k = (
            torch.full((B,), self.k)
            if moment.draw is None
            else 1 + (moment.draw * self.most).long()
        )
        steps = torch.arange(T).expand(B, T)
        stops = (k[:, None] + steps).minimum(source.mask.sum(1, keepdim=True))
        losses = NO_LOSSES if moment.draw is None else {"waited": k.double()}
        return Plan(Stops(stops[:, None]), self.weight(steps, source.mask.shape[1]), losses)

    def start(self, source: Source) -> Waiting:
        return Waiting(torch.zeros_like(source.tokens[:, 0]), source.mask, source.finished)

    def extend(self, state: Waiting, source: Source) -> Waiting:
        return Waiting(state.written, torch.cat([state.mask, source.mask], 1), source.finished)

    def seen(self, state: Waiting, read: Tensor, finished: Tensor) -> Waiting:
        mask = torch.arange(state.mask.shape[1]) < read[:, None]
        return Waiting(state.written, mask, finished)

    def step(self, state: Waiting, token: Tensor, moves: Tensor | None = None) -> Stand:
        wanted, read = state.written + self.k, state.mask.sum(1)
        return Stand(
            position=wanted.minimum(read)[:, None],
            state=state._replace(written=state.written + 1),
            wants_to_read=(wanted > read) & ~state.finished,
            weight=self.weight(state.written[:, None], state.mask.shape[1])[:, :, 0],
        )


NEW = {
    "information": Mechanism(Information(enough=2.0), Lookback(), name="information"),
    "random wait": Mechanism(RandomWait(most=4), Lookback(), name="random wait"),
}
new = pytest.mark.parametrize("name", NEW)
everywhere = pytest.mark.parametrize("kind", zoo.SMALL)


def model(name: str, kind: str, seed: int = 0, **changes) -> Model:
    torch.manual_seed(seed)
    return zoo.SMALL[kind](mechanism=NEW[name].turned(changes)).double().eval()


@new
def test_a_new_mechanism_obeys_the_laws(name: str) -> None:
    hold(NEW[name], {"luong": zoo.SMALL["luong"]})  # with shapes checked
    with unchecked():
        hold(NEW[name])


@everywhere
def test_a_dial_is_turned_without_training(kind: str) -> None:
    source, mask = zoo.sentences(6, 9)
    target = torch.randint(4, zoo.VOCABULARY, (6, 7))
    reads = [
        zoo.forced_steps(model("information", kind, enough=enough), source, mask, target)[1].sum()
        for enough in (0.5, 2.0, 4.0)
    ]
    assert reads == sorted(reads)
    assert reads[0] < reads[-1]


@everywhere
def test_a_curriculum_and_a_draw_reach_the_policy(kind: str) -> None:
    source, mask = zoo.sentences(6, 9)
    target = torch.randint(4, zoo.VOCABULARY, (6, 7))
    for name, first, second in (
        ("information", Moment(1, 10), Moment(9, 10)),
        ("random wait", Moment(draw=torch.zeros(6)), Moment(draw=torch.full((6,), 0.9))),
    ):
        made = model(name, kind)
        early, late = (made(source, mask, target, moment).logits for moment in (first, second))
        assert (early != late).any()


@new
@everywhere
def test_losses_are_handed_on_once_for_each_sentence(name: str, kind: str) -> None:
    source, mask = zoo.sentences(6, 9)
    target = torch.randint(4, zoo.VOCABULARY, (6, 7))
    moment = Moment(draw=torch.linspace(0, 0.9, 6))
    losses = model(name, kind)(source, mask, target, moment).losses
    if name == "random wait":  # a clock's, once however many layers there are
        assert losses["waited"].tolist() == [1, 1, 2, 3, 3, 4]
    else:
        assert losses["information"].shape == (6,)
        assert losses["information"].requires_grad


def test_a_weight_of_one_changes_nothing() -> None:
    beta = torch.rand(2, 3, 4, 5).double()
    assert reweighted(beta, None) is beta
    torch.testing.assert_close(reweighted(beta, torch.full_like(beta, 0.3)), beta, **NEAR)
    weight = torch.rand(2, 1, 4, 5).double()
    weighted = reweighted(beta, weight)
    torch.testing.assert_close(weighted.sum(-1), beta.sum(-1), **NEAR)
    assert (reweighted(beta, torch.zeros_like(weight)) == beta).all(), "nothing to share out"


def test_draws_depend_on_the_sentence_alone() -> None:
    index = torch.arange(1000)
    draws = sentence_draws(seed=3, update=7, index=index)
    assert ((draws >= 0) & (draws < 1)).all()
    # 1000 uniform draws: the standard error of their mean is 0.009
    assert abs(draws.mean() - 0.5) < 0.04
    order = torch.randperm(1000)
    assert torch.equal(sentence_draws(3, 7, order), draws[order])
    assert (sentence_draws(3, 8, index) != draws).all()
    assert (sentence_draws(4, 7, index) != draws).all()


def test_a_mechanism_of_objects() -> None:
    assert Mechanism(schedule=WaitK(k=3), span=Lookback()).dials == {"k": 3}
    assert Mechanism(WaitK(k=3), Lookback()).turned({"k": 5}).schedule == WaitK(k=5)
