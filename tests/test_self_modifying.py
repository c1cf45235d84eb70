"""SM2 against a slow reading of the paper: the loss, the prefixes, and what decoding sees."""

from __future__ import annotations

import pytest
import torch

import zoo
from simulmt.attention import Moment, Past
from simulmt.models.model import Model
from simulmt.objective.batch import Batch
from simulmt.objective.self_modifying import SelfModifying, prefix
from simulmt.parts.builders import build_mechanism

DRAW = torch.tensor([0.0, 0.3, 0.6, 0.999])


def a_model(kind: str = "transformer", **sizes: object) -> Model:
    made = zoo.model(zoo.options("sm2"), kind=kind, **sizes)
    assert made.confidence is not None
    made.confidence.weight.data *= 10
    return made


def a_batch() -> Batch:
    source, source_mask = zoo.sentences(4, 9)
    target, target_mask = zoo.sentences(4, 7, seed=2)
    begin = torch.full_like(target[:, :1], zoo.BOS)
    target_input = torch.cat([begin, target[:, :-1]], 1).where(target_mask, zoo.PAD)
    further = target_input, torch.arange(4), source_mask.sum(1) - 1
    return Batch(source, source_mask, target, target_mask, *further)


def an_objective(**changes: float) -> SelfModifying:
    usual = {"label_smoothing": 0.1, "penalty": 0.1, "detach": False, "hold": 0, "warmup": 0}
    return SelfModifying(**{**usual, **changes})


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize(
    ("kind", "sizes"),
    [
        ("transformer", {"encoder": "bidirectional"}),
        ("transformer", {}),
        ("transformer", {"encoder": "causal", "history": 20}),
        ("transformer", {"encoder": "by_word"}),
        ("luong", {}),
    ],
)
def test_the_loss_is_that_of_the_paper(kind: str, sizes: dict, smoothing: float) -> None:
    """Sentence by sentence and token by token, each prefix encoded without what follows it."""
    made, batch = a_model(kind, **sizes), a_batch()
    if "history" in sizes:  # both sides of a past are padded on the left
        batch = batch._replace(past=Past(*(x.flip(1) for x in batch[:4])))
    loss = an_objective(label_smoothing=smoothing, penalty=0.3)(made, batch, Moment(draw=DRAW))
    expected, vocabulary = 0.0, zoo.VOCABULARY
    for row, draw in enumerate(DRAW.tolist()):
        S, T = int(batch.source_mask[row].sum()), int(batch.target_mask[row].sum())
        source, given = batch.source[row : row + 1, :S], batch.target_input[row : row + 1, :T]
        short = source[:, : 1 + int(draw * S)]
        past = batch.past and Past(*(x[row : row + 1] for x in batch.past))
        sources = (made.encode(x, x != zoo.PAD, past) for x in (source, short))
        full, part = (made.decode(x, given) for x in sources)
        p, q = (one.logits.softmax(-1)[0] for one in (full, part))
        c = part.confidence[0].sigmoid()
        for i, token in enumerate(batch.target[row, :T].tolist()):
            mixed = c[i] * q[i] + (1 - c[i]) * p[i]
            for view in (p[i], mixed):
                smooth = torch.full((vocabulary,), smoothing / vocabulary, dtype=p.dtype)
                smooth[token] += 1 - smoothing
                expected = expected - (smooth * view.log()).sum()
            expected = expected - 0.3 * c[i].log()
    # float64: rounding only
    torch.testing.assert_close(loss.total.double(), expected, rtol=1e-9, atol=0)


def test_prefixes_are_uniform_over_the_lengths() -> None:
    mask = torch.tensor([[True] * 4 + [False] * 2, [True] + [False] * 5])
    lengths = torch.stack([prefix(mask, torch.full((2,), n / 8)).sum(1) for n in range(8)])
    assert lengths[:, 0].tolist() == [1, 1, 2, 2, 3, 3, 4, 4]
    assert (lengths[:, 1] == 1).all()


def test_a_detached_mixture_teaches_the_view_of_the_whole_nothing() -> None:
    made, batch, moment = a_model(), a_batch(), Moment(draw=DRAW)

    def gradients(**changes: float) -> list[torch.Tensor]:
        made.zero_grad()
        an_objective(**changes)(made, batch, moment).total.backward()
        return [p.grad.clone() for p in made.parameters()]

    both, one = gradients(), gradients(detach=True)
    assert any((a != b).any() for a, b in zip(both, one, strict=True))


def test_held_and_in_validation_only_whole_sentences_count() -> None:
    made, batch = a_model(), a_batch()
    held = an_objective(hold=10, warmup=4)
    assert [held.strength(update) for update in (9, 10, 11, 13, 20)] == [0, 0.25, 0.5, 1, 1]
    whole = held(made, batch, Moment(3, 100, DRAW))
    assert whole.total == an_objective()(made, batch, Moment(50, 100)).total
    assert whole.total < held(made, batch, Moment(50, 100, DRAW)).total
    made.zero_grad()
    whole.total.backward()
    assert all(p.grad is not None for p in made.parameters()), "DDP needs all gradients"


def test_another_mechanism_is_refused() -> None:
    assert "take mechanism=sm2" in an_objective().misfit(build_mechanism(zoo.options("soft")))
    assert not an_objective().misfit(build_mechanism(zoo.options("sm2")))


def test_all_terms_of_prefixes_grow_together():
    """Halfway through the warm-up the loss is halfway between those without and with prefixes."""
    made, batch = a_model(), a_batch()
    objective = an_objective(hold=10, warmup=4, penalty=0.5)
    totals = [objective(made, batch, Moment(n, 100, DRAW)).total.item() for n in (9, 11, 13)]
    assert totals[1] == pytest.approx((totals[0] + totals[2]) / 2, rel=1e-9)
