"""Wait-info against a slow reading of the paper: the clock, its weights and its loss."""

from __future__ import annotations

import pytest
import torch

import zoo
from simulmt.attention import Moment
from simulmt.attention.clocks.wait_info import InformationClock
from simulmt.attention.words import OncePerWord
from simulmt.decoding.forced import forced_steps
from simulmt.models.model import Model


def a_model(kind: str = "transformer", seed: int = 0, name: str = "wait_info", **changes) -> Model:
    made = zoo.model(zoo.MECHANISMS[name] | changes, seed, kind)
    for quantifier in (clock_of(made).source, clock_of(made).target):
        quantifier.out.weight.data *= 20  # so that some tokens inform, and others do not
    return made


def clock_of(made: Model) -> InformationClock:
    clock = made.clock.clock if isinstance(made.clock, OncePerWord) else made.clock
    assert isinstance(clock, InformationClock)
    return clock


@pytest.mark.parametrize("kind", zoo.SMALL)
@pytest.mark.parametrize("k", [0.4, 1.0, 2.7])
@torch.no_grad()
def test_the_clock_is_that_of_the_paper(kind: str, k: float) -> None:
    made = a_model(kind, k=k)
    source, mask = zoo.sentences(4, 9)
    target = torch.randint(4, zoo.VOCABULARY, (4, 7))
    target[:, 0] = zoo.BOS
    clock, begin = clock_of(made), torch.zeros(1, 1, dtype=torch.long)
    plan = made.clock.plan(made.encode(source, mask), target, Moment())
    for row, length in enumerate(mask.sum(1).tolist()):
        one = clock.information(source[row : row + 1], begin, "source")[0].tolist()
        two = clock.information(target[row : row + 1], begin, "target")[0].tolist()
        assert two[0] == 1
        for i in range(7):  # from 0: the words of i inputs are written
            stop = 1
            while stop < length and sum(one[:stop]) < k + sum(two[1 : i + 1]):
                stop += 1
            assert plan.alignment.position[row, 0, i] == stop
            weight = [2 - abs(info - two[i]) for info in one]
            torch.testing.assert_close(plan.weight[row, 0, i].tolist(), weight)


@pytest.mark.parametrize("k", [0.4, 1.0, 2.7])
@torch.no_grad()
def test_a_word_of_several_subwords_has_the_information_of_its_first(k: float) -> None:
    """In decoding, where a word is known to have ended once the next one begins, as in training."""
    made = a_model(k=k, target_unit="word")
    first = [token for token in range(4, zoo.VOCABULARY) if made.begins[token]]
    inside = [token for token in range(4, zoo.VOCABULARY) if not made.begins[token]]
    words = [[first[0], *inside[:2]], [first[1], inside[2]], [first[2]], [first[3], inside[0]]]
    source, _ = zoo.sentences(1, 9)
    encoded = made.encode(source, torch.ones_like(source, dtype=torch.bool))
    target = torch.tensor([[token for word in words for token in word] + [zoo.EOS]])
    given = torch.cat([torch.tensor([[zoo.BOS]]), target[:, :-1]], 1)
    planned = made.clock.plan(encoded, given, Moment()).alignment.position[0, 0].tolist()
    read = [step.read.item() for step in forced_steps(made, encoded, given, target)]
    place = 0
    for before, word in zip([[zoo.BOS], *words], [*words, [zoo.EOS]], strict=True):
        assert read[place] == planned[place - len(before) + 1 if place else 0]
        place += len(word)


@pytest.mark.parametrize("kind", zoo.SMALL)
@pytest.mark.parametrize("k", [1, 3])
@torch.no_grad()
def test_with_an_information_of_one_it_is_wait_k(kind: str, k: int) -> None:
    made, other = a_model(kind, k=float(k)), zoo.model(zoo.options("wait_k") | {"k": k}, kind=kind)
    for quantifier in (clock_of(made).source, clock_of(made).target):
        quantifier.out.weight.data.zero_()
    parameters = made.state_dict()
    other.load_state_dict({name: parameters[name] for name in other.state_dict()})
    source, mask = zoo.sentences(4, 9)
    target = torch.randint(4, zoo.VOCABULARY, (4, 7))
    ones, twos = (zoo.forced_steps(one, source, mask, target) for one in (made, other))
    torch.testing.assert_close(ones[0], twos[0], rtol=0, atol=1e-9)
    assert torch.equal(ones[1], twos[1])


def test_the_loss_is_per_sentence_whatever_the_padding() -> None:
    made = a_model()
    source, mask = zoo.sentences(4, 9)
    target = torch.randint(4, zoo.VOCABULARY, (4, 7))
    lengths = torch.tensor([7, 5, 2, 1])
    together = made(source, mask, target, Moment(lengths=lengths)).losses["information_gap"]
    clock, begin = clock_of(made), torch.zeros(1, 1, dtype=torch.long)
    for row, (one, two) in enumerate(zip(mask.sum(1).tolist(), lengths.tolist(), strict=True)):
        read = clock.information(source[row : row + 1, :one], begin, "source").sum()
        sent = clock.information(target[row : row + 1, :two], begin, "target").sum()
        mean = (one + two) / 2
        expected = (read - mean).abs() + (sent - mean).abs()
        torch.testing.assert_close(together[row], expected, rtol=0, atol=1e-9)


def test_training_draws_k_after_a_time_with_the_whole_source() -> None:
    made = a_model(full=0.2)
    clock_of(made).source.out.weight.data.zero_()  # each token informs 1
    source, mask = zoo.sentences(6, 9)
    target = torch.randint(4, zoo.VOCABULARY, (6, 5))
    encoded, draw = made.encode(source, mask), torch.linspace(0, 0.99, 6)
    length = mask.sum(1)
    early = made.clock.plan(encoded, target, Moment(1, 100, draw)).alignment.position
    assert torch.equal(early[:, 0], length[:, None].expand(6, 5))
    late = made.clock.plan(encoded, target, Moment(50, 100, draw)).alignment.position
    assert late[0, 0, 0] < length[0], "the first sentence draws 1"
    assert late[-1, 0, 0] == length[-1], "the last one draws its length"


def test_wait_info_sees_the_whole_source_for_that_share_of_the_updates() -> None:
    for full in (0.0, 0.25):
        model = zoo.model(zoo.options("wait_info") | {"k": 1.0, "full": full})
        source, mask = zoo.sentences(4, 9)
        encoded, target = model.encode(source, mask), torch.full((4, 2), zoo.BOS)
        draw, lengths = torch.zeros(4), mask.sum(1)
        plans = [model.clock.plan(encoded, target, Moment(n, 8, draw)) for n in range(8)]
        whole = [bool((p.alignment.position[:, 0, 0] == lengths).all()) for p in plans]
        assert sum(whole) == 8 * full


def a_model_of_equal_words() -> Model:
    """Each word of either side informs 1."""
    made = a_model(name="wait_info-words")
    for quantifier in (clock_of(made).source, clock_of(made).target):
        quantifier.out.weight.data.zero_()
    return made


@torch.no_grad()
def test_words_that_inform_one_each_leave_no_gap() -> None:
    made = a_model_of_equal_words()
    source, mask = zoo.sentences(4, 9)
    words = made.word_ends(source, mask).sum(1)
    assert (words < mask.sum(1)).any()
    target, moment = torch.full((4, 9), zoo.BOS), Moment(lengths=words)
    gap = clock_of(made).plan(made.encode(source, mask), target, moment).losses["information_gap"]
    torch.testing.assert_close(gap, torch.zeros_like(gap), rtol=0, atol=1e-9)


@torch.no_grad()
def test_what_follows_a_sentence_in_a_stream_does_not_count() -> None:
    """Neither in the gap nor in the K of training: the last draw stands for S."""
    made, alone = a_model(), torch.tensor([6, 3, 5, 1])
    clock_of(made).source.out.weight.data.zero_()  # each token informs 1
    source, mask = zoo.sentences(4, 9)
    source, mask = source.where(mask, 5), torch.ones_like(mask)
    target, draw = torch.randint(4, zoo.VOCABULARY, (4, 7)), torch.full((4,), 0.999)
    moment = Moment(50, 100, draw, torch.tensor([7, 5, 2, 1]), alone)
    plan = made.clock.plan(made.encode(source, mask), target, moment)
    own = torch.arange(9) < alone[:, None]
    cut = made.clock.plan(made.encode(source, own), target, moment._replace(sources=None))
    for name, loss in cut.losses.items():
        torch.testing.assert_close(plan.losses[name], loss, rtol=0, atol=1e-9)
    assert plan.alignment.position[:, 0, 0].tolist() == alone.tolist()


def test_the_word_that_stands_for_eos_counts_whole() -> None:
    """Whatever the number of its subwords, as EOS does at the end of a document."""
    made = a_model_of_equal_words()
    source, mask = zoo.sentences(1, 9)
    source, ends = source.where(mask, 5), made.word_ends(source.where(mask, 5), mask | True)[0]
    target = torch.full((1, 1), zoo.BOS)
    for sources in range(1, 10):
        moment = Moment(lengths=torch.tensor([1]), sources=torch.tensor([sources]))
        plan = made.clock.plan(made.encode(source, mask | True), target, moment)
        words = 1 + ends[: sources - 1].sum()  # the word of token `sources`, and those before
        assert plan.losses["information_gap"].item() == pytest.approx(abs(words - 1))


def test_weights_of_attention_teach_the_information_of_both_sides() -> None:
    made = a_model()
    source, mask = zoo.sentences(4, 9)
    target = torch.randint(4, zoo.VOCABULARY, (4, 7))
    weight = made.clock.plan(made.encode(source, mask), target, Moment()).weight
    (weight * torch.randn_like(weight)).sum().backward()
    clock = clock_of(made)
    assert all(side.out.weight.grad.any() for side in (clock.source, clock.target))


@torch.no_grad()
def test_the_gap_counts_the_words_of_both_sides_whatever_the_padding() -> None:
    """Where each word informs 1 the gap is the difference of their numbers."""
    made = a_model_of_equal_words()
    source, mask = zoo.sentences(4, 9)
    target, lengths = torch.randint(4, zoo.VOCABULARY, (4, 7)), torch.tensor([7, 5, 2, 1])
    target[:, 0] = zoo.BOS
    plan = made.clock.plan(made.encode(source, mask), target, Moment(lengths=lengths))
    words = (made.begins[target] & (torch.arange(7) < lengths[:, None])).sum(1)
    assert (words < lengths).any()
    gap = (made.word_ends(source, mask).sum(1) - words).abs().double()
    torch.testing.assert_close(plan.losses["information_gap"], gap, rtol=0, atol=1e-9)
