"""Parts of somebody else's package: right ones obey the laws, wrong ones are caught by name."""

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
import torch
from torch import Tensor

from simulmt.attention import Lookback, Mechanism, Memory, Moment, Plan, Source, Stand
from simulmt.attention.clock import Ticks, Timetable
from simulmt.attention.memory import places
from simulmt.attention.plan import Expected, Odds, Stops
from simulmt.attention.schedules import Monotonic, MonotonicHeads
from simulmt.attention.scores import ScoreFunction
from simulmt.attention.spans import Look
from simulmt.attention.spans.span import PlainSpan
from simulmt.decoding.policies import WaitK
from simulmt.errors import UserError
from simulmt.laws import Case, VacuousError, check, hold, of_attention
from simulmt.laws.of_training import padding_changes_nothing, training_is_hard_decoding
from simulmt.laws.small import SMALL

MINE = {"transformer": SMALL["transformer"]}


@dataclass(frozen=True)
class CatchUp(Timetable):
    """Writes two tokens for each one read."""

    k: int = 3

    def wanted(self, step: Tensor) -> Tensor:
        return self.k + (step - 1) // 2


class Peeks(CatchUp):
    """Goes by tokens that have not been read."""

    def start(self, source: Source) -> Ticks:
        return super().start(source)._replace(written=source.tokens.sum(1) % 3)

    def plan(self, source: Source, target: Tensor, moment: Moment) -> Plan:
        steps = self.start(source).written[:, None] + places(target, target.shape[1])
        stops = self.wanted(steps).minimum(source.mask.sum(1, keepdim=True))
        return Plan(Stops(stops[:, None]))


class Insatiable(CatchUp):
    """Wants to read after the source's end."""

    def step(self, state: Ticks, token: Tensor, moves: Tensor | None = None) -> Stand:
        wanted = self.wanted(state.written + 1)
        return super().step(state, token, moves)._replace(wants_to_read=wanted > state.read)


class LooksAhead(PlainSpan):
    """Sees a token that it does not ask to be read."""

    def look(self, query: Tensor, position: Tensor, length: int) -> Look:
        return Look(places(position, length) <= position[..., None] + 1)


class Heads(MonotonicHeads):
    """Computes its alignment itself."""

    sharpness = 1.0

    def plan(self, query: Tensor, memory: Memory, state: Tensor, moment: Moment) -> Plan:
        odds = Odds(self.logits(query, memory) * self.sharpness, state)
        return Plan(Expected(odds.expected()))


class HastyHeads(MonotonicHeads):
    """Stops earlier when it decodes than when it trains."""

    def step(self, query: Tensor, memory: Memory, state: Tensor) -> Stand:
        stand = super().step(query, memory, state)
        return stand._replace(position=(stand.position - 1).clamp(min=1))


class PairHeads(MonotonicHeads):
    """Carries two tensors between two steps of inference."""

    def initial_position(self, memory: Memory) -> tuple[Tensor, Tensor]:
        nowhere = super().initial_position(memory)
        return nowhere, nowhere[:, 0]

    def step(self, query: Tensor, memory: Memory, state: tuple[Tensor, Tensor]) -> Stand:
        stand = super().step(query, memory, state[0])
        return stand._replace(state=(stand.state, state[1] + 1))


class SummedLoss(MonotonicHeads):
    """One number for all sentences."""

    def plan(self, query: Tensor, memory: Memory, state: Tensor, moment: Moment) -> Plan:
        found = super().plan(query, memory, state, moment)
        return found._replace(losses={"odds": self.loss(found.alignment.logit, moment)})

    def loss(self, logit: Tensor, moment: Moment) -> Tensor:
        return logit.clamp(-1, 1).sum()


class PaddedLoss(SummedLoss):
    """Counts padding."""

    def loss(self, logit: Tensor, moment: Moment) -> Tensor:
        return logit.clamp(-1, 1)[..., 0].sum((1, 2))


class MixedLoss(SummedLoss):
    """Depends on the other sentences."""

    def loss(self, logit: Tensor, moment: Moment) -> Tensor:
        first = logit.clamp(-1, 1)[..., 0, 0].sum(1)
        return first - first.mean()


@dataclass(frozen=True)
class Learned(Monotonic):
    """Some kind of learned heads."""

    noise: float = 1.0
    energy_bias: float = 0.0
    mass_preservation: bool = True
    kind: type[MonotonicHeads] = Heads

    @property
    def losses(self) -> tuple[str, ...]:  # type: ignore[override]
        return ("odds",) * issubclass(self.kind, SummedLoss)

    def build(
        self, dim: int, heads: int, score: Callable[[int, int], ScoreFunction]
    ) -> MonotonicHeads:
        return self.kind(self, score(dim, heads), heads)


@pytest.mark.parametrize("right", [CatchUp(), Learned(kind=PairHeads)], ids=["clock", "heads"])
def test_a_right_mechanism_is_held_quietly(right, capfd):
    before = torch.get_rng_state()
    hold(Mechanism(right, Lookback(), name="catch_up"), MINE)
    assert capfd.readouterr() == ("", "")
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.slow
def test_what_is_no_mechanism_is_one_line():
    with pytest.raises(AssertionError, match=r"^hold checks a Mechanism, not WaitK\(k=3\)$"):
        hold(WaitK(k=3))  # type: ignore[arg-type]


def test_the_example_of_a_package_is_held(monkeypatch):
    """On all models; its own tests do the same."""
    monkeypatch.syspath_prepend(Path(__file__).parents[1] / "examples" / "catch_up")
    importlib.import_module("test_catch_up").test_laws()


@pytest.mark.parametrize(
    ("wrong", "law"),
    [
        (Mechanism(Peeks(), Lookback()), "stepwise_encoding_is_encoding"),
        (Mechanism(Insatiable(), Lookback()), "training_is_hard_decoding"),
        (Mechanism(CatchUp(), LooksAhead()), "batches_are_streams"),
        (Mechanism(Learned(kind=HastyHeads), Lookback()), "training_is_hard_decoding"),
    ],
    ids=["a clock peeks", "a clock never has enough", "a span peeks", "a step is not its plan"],
)
def test_a_wrong_mechanism_breaks_a_law(wrong, law):
    with pytest.raises(AssertionError, match=rf"mechanism=mechanism on transformer .*{law}: "):
        hold(wrong, MINE)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (SummedLoss, r"The loss odds of 4 sentences has the shape \(\), not \(4,\)\."),
        (PaddedLoss, "The loss odds differs with more padding"),
        (MixedLoss, "The loss odds differs in a smaller batch"),
    ],
)
def test_a_loss_is_a_number_of_each_sentence_alone(wrong, said):
    case = Case(Mechanism(Learned(kind=wrong), Lookback()), SMALL["transformer"])
    with pytest.raises(AssertionError, match=said):
        check(padding_changes_nothing, case, "transformer")


def test_an_error_of_a_mechanism_names_the_law(monkeypatch):
    monkeypatch.setattr(CatchUp, "wanted", lambda self, step: step[9])
    with pytest.raises(AssertionError, match=r"catch_up on transformer .*\nIndexError: "):
        hold(Mechanism(CatchUp(), Lookback(), name="catch_up"), MINE)


def test_laws_of_no_model_do_not_pass():
    with pytest.raises(AssertionError, match="no model takes mechanism=catch_up: no models are"):
        hold(Mechanism(CatchUp(), Lookback(), name="catch_up"), {})


def test_a_broken_law_is_told_with_its_size_and_one_that_says_nothing_is_an_error():
    with pytest.raises(AssertionError, match=r"Greatest absolute difference: "):
        hold(Mechanism(Learned(kind=HastyHeads), Lookback()), MINE)
    with pytest.raises(VacuousError):
        hold(Mechanism(CatchUp(k=20), Lookback()), MINE)


def test_a_model_is_held_too() -> None:
    mechanism = Mechanism(CatchUp(), LooksAhead())
    with pytest.raises(AssertionError, match="on mine breaks"):
        hold(mechanism, {"mine": SMALL["luong"]})


def test_a_law_about_attention_asks_for_some(monkeypatch):
    """As for a model that has no `Attention`."""
    monkeypatch.setattr(of_attention, "Attention", torch.nn.Bilinear)
    with pytest.raises(VacuousError, match="attention_is_a_distribution says nothing"):
        hold(Mechanism(CatchUp(), Lookback()), MINE)


def test_a_schedule_with_its_own_alignment_says_how_it_gets_certain():
    mechanism, law = Mechanism(Learned(), Lookback()), training_is_hard_decoding
    with pytest.raises(AssertionError, match="sharpen="):
        hold(mechanism, MINE)
    sharp = Case(mechanism, MINE["transformer"], lambda heads: setattr(heads, "sharpness", 1e9))
    check(law, sharp, "transformer")


@pytest.mark.parametrize(
    "wanted", [lambda i: i - 1, lambda i: (7 - i).clamp(min=1), lambda i: i / 2]
)
def test_a_timetable_that_breaks_its_contract_is_an_error(wanted, monkeypatch):
    """It starts at 0, it falls, or it is not a whole number."""
    monkeypatch.setattr(CatchUp, "wanted", lambda _, step: wanted(step))
    with pytest.raises(UserError, match=r"CatchUp\.wanted"):
        CatchUp().build(16, lambda tokens, *_: tokens)
    with pytest.raises(AssertionError, match=r"no model takes mechanism=catch_up: CatchUp\.wanted"):
        hold(Mechanism(CatchUp(), Lookback(), name="catch_up"))
