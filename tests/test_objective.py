"""The objective against the formulas of the papers, written as loops."""

from __future__ import annotations

import math

import pytest
import torch

import zoo
from simulmt.attention import Losses
from simulmt.attention.plan import NO_LOSSES
from simulmt.models.projection import Projection
from simulmt.models.results import Translation
from simulmt.objective import LatencyAugmented
from simulmt.objective.batch import Batch
from simulmt.objective.delays import alignment_variance, expected_delays, weighted_delay
from simulmt.parts.builders import build_mechanism

SETTINGS = {
    "lambda_": 0.3,
    "lambda_var": 0.7,
    "terms": {},
    "label_smoothing": 0.1,
    "latency": "dal",
    "latency_unit": "subword",
    "variance": "heads",
    "lost_mass": "length",
    "hold": 0,
    "warmup": 0,
}


def example(B: int = 3, H: int = 4, T: int = 5, S: int = 6, V: int = 7):
    torch.manual_seed(0)
    source_mask = torch.arange(S) < torch.tensor([6, 3, 1])[:, None]
    target_mask = torch.arange(T) < torch.tensor([2, 5, 3])[:, None]
    logits = torch.randn(B, T, V, dtype=torch.float64, requires_grad=True)
    alpha = torch.rand(B, H, T, S, dtype=torch.float64) * source_mask[:, None, None]
    alpha = (alpha / alpha.sum(-1, keepdim=True)).requires_grad_()
    target = torch.randint(4, V, (B, T)).masked_fill(~target_mask, 0)
    return logits, alpha, target, source_mask, target_mask


def loss_of(
    logits,
    alphas,
    target,
    source_mask,
    target_mask,
    update,
    losses: Losses = NO_LOSSES,
    ends=None,
    end=None,
    **options,
):
    """The loss of an output made by hand."""
    same = Projection(torch.eye(logits.shape[-1], dtype=logits.dtype))
    translation = Translation(logits, same, tuple(alphas), losses)
    index, end = torch.arange(len(target)), source_mask.sum(1) - 1 if end is None else end
    batch = Batch(source_mask.long(), source_mask, target, target_mask, target, index, end)
    return LatencyAugmented(**(SETTINGS | options)).loss(translation, batch, update, ends)


def by_hand(logits, alpha, target, source_mask, target_mask, ends=None):
    """L_avg, L_var (MMA eq. 14-16) and the smoothed likelihood, sentence by sentence."""
    total = lag = variance = 0.0
    ends = source_mask if ends is None else ends
    for b in range(len(logits)):
        length, T = int(source_mask[b].sum()), int(target_mask[b].sum())
        S = int(ends[b].sum())
        w = [1 + int(ends[b, :j].sum()) for j in range(length)]
        gamma, reached, dal, var = T / S, 0.0, 0.0, 0.0
        for i in range(T):
            scores = logits[b, i].log_softmax(-1)
            total -= 0.9 * scores[target[b, i]] + 0.1 * scores.mean()
            delays = [sum(w[j] * alpha[b, h, i, j] for j in range(length)) for h in range(4)]
            norm = sum(g.exp() for g in delays)
            delay = sum(g.exp() / norm * g for g in delays)
            reached = delay if i == 0 else torch.maximum(delay, reached + 1 / gamma)
            dal += (reached - i / gamma) / T
            mean = sum(delays) / 4
            var += sum((g - mean) ** 2 for g in delays) / 4 / T
        lag += dal
        variance += var
    return total, lag, variance


def test_a_sentence_is_as_long_in_words_whatever_follows_it():
    """In a document: EOS, a word of a single subword, or the first subword of a longer one."""
    logits, alpha, target, _, target_mask = (part[:1] for part in example())
    source_mask, end = torch.ones(1, 6, dtype=torch.bool), torch.tensor([3])
    alpha = alpha.detach() * (torch.arange(6) < 3)
    alpha = alpha / alpha.sum(-1, keepdim=True)
    found = {
        loss_of(
            *(logits, [alpha], target, source_mask, target_mask),
            update=10,
            ends=torch.tensor([[True, False, True, following, True, True]]),
            end=end,
        )
        .per_sentence["latency"]
        .item()
        for following in (True, False)
    }
    assert len(found) == 1


WORDS = torch.tensor([[0, 1, 0, 0, 1, 1], [1, 0, 1, 0, 0, 0], [1, 0, 0, 0, 0, 0]]).bool()


@pytest.mark.parametrize("ends", [None, WORDS], ids=["subwords", "words"])
def test_the_objective_is_that_of_the_papers(ends):
    logits, alpha, *rest = example()
    likelihood, lag, variance = by_hand(logits, alpha, *rest, ends)
    loss = loss_of(logits, alpha.split(2, 1), *rest, update=10, ends=ends)  # of two layers
    # in float64 only the order of summation differs
    torch.testing.assert_close(
        loss.per_sentence["latency"], lag, check_dtype=False, rtol=1e-9, atol=0
    )
    torch.testing.assert_close(
        loss.per_sentence["variance"], variance, check_dtype=False, rtol=1e-9, atol=0
    )
    total = likelihood + 0.3 * lag + 0.7 * variance
    torch.testing.assert_close(loss.total, total, check_dtype=False, rtol=1e-9, atol=0)
    assert int(loss.tokens) == 10
    assert loss.sentences == 3


def test_padding_has_no_gradient():
    logits, alpha, target, source_mask, target_mask = example()
    loss = loss_of(logits, [alpha], target, source_mask, target_mask, update=10)
    by_logits, by_alpha = torch.autograd.grad(loss.total, (logits, alpha))
    assert (by_logits[~target_mask] == 0).all()
    assert (by_alpha.transpose(1, 2)[~target_mask] == 0).all()


def test_mass_that_ran_off_the_end_counts_as_the_whole_source():
    mask = torch.ones(1, 4, dtype=torch.bool)
    alpha = torch.tensor([[[[0.5, 0.0, 0.0, 0.0]]]])
    place = torch.arange(1, 5)[None]
    assert expected_delays([alpha], place, mask.sum(-1)).item() == pytest.approx(0.5 * 1 + 0.5 * 4)
    assert expected_delays([alpha], place, 0 * mask.sum(-1)).item() == pytest.approx(0.5 * 1)


def test_the_variance_of_an_alignment_is_that_of_its_places():
    _, alpha, *_ = example()
    place = torch.tensor([[1, 1, 2, 3, 3, 4]]).expand(3, -1)  # words
    seen = alignment_variance([alpha, alpha.flip(1)], place)
    for b, row in enumerate(alpha.tolist()):
        for i in range(5):
            variances = []
            for head in row:
                pairs = [*zip(head[i], place[b].tolist(), strict=True)]
                mean = sum(p * j for p, j in pairs)
                variances.append(sum(p * j * j for p, j in pairs) - mean**2)
            assert seen[b, i].item() == pytest.approx(sum(variances) / 4, rel=1e-9, abs=1e-12)


def test_the_slowest_head_weighs_most():
    delays = torch.tensor([[[1.0], [2.0]]])
    share = math.exp(2) / (math.exp(1) + math.exp(2))
    assert weighted_delay(delays).item() == pytest.approx(1 + share)


@pytest.mark.parametrize(
    ("hold", "warmup", "expected"),
    [(0, 0, [1, 1, 1]), (2, 0, [0, 0, 1]), (1, 2, [0, 0.5, 1]), (0, 2, [0.5, 1, 1])],
)
def test_latency_is_held_back_then_grows(hold, warmup, expected):
    objective = LatencyAugmented(**(SETTINGS | {"hold": hold, "warmup": warmup}))
    assert [objective.strength(update) for update in range(3)] == expected


def test_losses_that_a_mechanism_hands_on_are_weighed_by_name():
    logits, _, target, source_mask, target_mask = example()
    losses = {"information": torch.tensor([1.0, 2.0, 4.0])}
    rest = (logits, (), target, source_mask, target_mask)
    plain = loss_of(*rest, update=0)
    loss = loss_of(*rest, update=0, losses=losses, terms={"information": 0.5})
    torch.testing.assert_close(loss.total, plain.total + 3.5)
    assert loss.per_sentence["information"] == 7
    itst = build_mechanism(zoo.options("itst"))
    own = {"information_lag": 1.0, "information_norm": 0.2}
    for terms in ({}, own | {"other": 1.0}):
        said = LatencyAugmented(**(SETTINGS | {"terms": terms})).misfit(itst)
        assert "its losses are information_lag, information_norm; give each of these" in said
    assert not LatencyAugmented(**(SETTINGS | {"terms": own})).misfit(itst)


def test_autocast_leaves_positions_alone():
    """In bfloat16 position 301 would be 300."""
    mask = torch.ones(1, 400, dtype=torch.bool)
    alpha = torch.zeros(1, 1, 1, 400)
    alpha[..., 300] = 1.0
    with torch.autocast("cpu", dtype=torch.bfloat16):
        rest = (torch.tensor([[5]]), mask, mask[:, :1])
        loss = loss_of(torch.zeros(1, 1, 9), [alpha], *rest, update=0, latency="ap")
    assert loss.per_sentence["latency"].item() == pytest.approx(301 / 400)


def test_lost_mass_that_counts_as_nothing_scales_the_delays():
    logits, alpha, target, *masks = example(H=1)
    given = {"update": 0, "latency": "ap"}
    whole = loss_of(logits, [alpha], target, *masks, **given).per_sentence["latency"]
    for lost in ("nothing", "length"):
        half = loss_of(logits, [alpha / 2], target, *masks, lost_mass=lost, **given)
        found = half.per_sentence["latency"]
        assert (found == pytest.approx(float(whole) / 2)) == (lost == "nothing")
        assert found >= whole / 2


def test_a_prefix_is_as_long_as_its_tokens():
    """Unlike a sentence, it has no EOS; so the third of six tokens is halfway in both."""
    alpha = torch.zeros(1, 1, 2, 6)
    alpha[..., 2] = 1
    mask = torch.ones(1, 6, dtype=torch.bool)
    for end in (6, 5):  # without EOS, with EOS
        rest = torch.zeros(1, 2, 7), [alpha], torch.tensor([[4, 5]]), mask, mask[:, :2]
        loss = loss_of(*rest, update=0, latency="ap", end=torch.tensor([end]))
        assert loss.per_sentence["latency"].item() == pytest.approx(3 / 6)


def test_the_weight_that_is_logged_is_the_one_in_force():
    objective = LatencyAugmented(**(SETTINGS | {"hold": 1, "warmup": 2}))
    assert [objective.weights(n)["lambda"] for n in range(4)] == pytest.approx([0, 0.15, 0.3, 0.3])
