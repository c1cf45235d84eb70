"""HMT against a slow reading of the paper: states, what they see, the loss, and decoding."""

import itertools

import pytest
import torch
from torch.nn.functional import pad

import test_hmt
import zoo
from simulmt.attention import TRAINED, Moment, Plan
from simulmt.attention.plan import Stops
from simulmt.decoding.incremental import SentenceStream
from simulmt.errors import UserError
from simulmt.models.model import Model
from simulmt.objective.batch import Batch
from simulmt.objective.marginal_likelihood import MarginalLikelihood, log_translate
from simulmt.parts.builders import build_mechanism

OPTIONS = zoo.options("hmt") | {"first_read": 2, "states": 3}


def a_model(seed: int = 0, kind: str = "transformer", **changes: object) -> Model:
    return zoo.model(OPTIONS | changes, seed=seed, kind=kind)


def a_batch() -> Batch:
    source, source_mask = zoo.sentences(4, 7)
    target, target_mask = zoo.sentences(4, 5, seed=2)
    begin = torch.full_like(target[:, :1], zoo.BOS)
    target_input = torch.cat([begin, target[:, :-1]], 1).where(target_mask, zoo.PAD)
    further = target_input, torch.arange(4), source_mask.sum(1) - 1
    return Batch(source, source_mask, target, target_mask, *further)


def c(i: int, n: int, S: int, L: int = 2) -> int:
    """What state n, from 0, of token i, from 1, has read."""
    return min(max(L + i - 1 + n, 1), S)


@pytest.mark.parametrize("L", [-2, 1, 4])
def test_states_read_what_the_paper_says(L):
    made, batch = a_model(first_read=L), a_batch()
    found = made(batch.source, batch.source_mask, batch.target_input)
    T = batch.target.shape[1]
    for row, S in enumerate(batch.source_mask.sum(1).tolist()):
        expected = [[c(i, n, S, L) for n in range(3)] for i in range(1, T + 1)]
        assert found.reads[row].tolist() == expected


@torch.no_grad()
def test_the_decoder_is_that_of_the_paper():
    """One sentence, state by state: what each sees is written out, key by key."""
    made = a_model()
    source, target = zoo.sentences(1, 7)[0], torch.tensor([[zoo.BOS, 9, 12, 17]])
    encoded, K, S = made.encode(source, source != zoo.PAD), 3, 7
    states = [(i, n) for i in range(1, 5) for n in range(K)]
    sees = torch.zeros(1, 1, 12, 12, dtype=torch.bool)
    for q, (i, n) in enumerate(states):
        for k, (j, m) in enumerate(states):
            sees[..., q, k] = (j, m) <= (i, n) and c(j, m, S) <= c(i, n, S)
    x = made.embed(target)[:, [i - 1 for i, _ in states]]
    plan = Plan(Stops(torch.tensor([[[c(i, n, S) for i, n in states]]])))
    for layer in made.decoder:
        x, _ = layer(x, sees, layer.source_attention.memory(encoded), plan, TRAINED)
    x = made.decoder_norm(x)[0]
    found = made.decode(encoded, target)
    torch.testing.assert_close(found.states[0].flatten(0, 1), x, rtol=0, atol=1e-12)  # rounding
    for q, (i, n) in enumerate(states):
        mean = encoded.states[0, : c(i, n, S)].mean(0)
        logit = made.several.confidence(torch.cat([x[q], mean]))[0]
        torch.testing.assert_close(found.confidence[0, i - 1, n], logit, rtol=0, atol=1e-12)


def test_the_loss_is_that_of_the_paper():
    """Sentence by sentence, over every path of states."""
    made, batch, smoothing = a_model(), a_batch(), 0.1
    objective = MarginalLikelihood(label_smoothing=0.1, states=0.7, latency=0.3, hold=0, warmup=0)
    loss = objective(made, batch, TRAINED)
    found = made(batch.source, batch.source_mask, batch.target_input)
    p, stay = found.logits.softmax(-1), found.confidence.sigmoid()
    nll = states = latency = 0.0
    for row in range(4):
        S, T = int(batch.source_mask[row].sum()), int(batch.target_mask[row].sum())
        first, second, _ = stay[row].unbind(1)
        t = torch.stack([first, (1 - first) * second, (1 - first) * (1 - second)], 1)
        y = batch.target[row].tolist()
        likelihood, late = 0.0, 0.0
        for path in itertools.product(range(3), repeat=T):
            chance, said, before = 1.0, 1.0, 0
            for i, n in enumerate(path, 1):
                open_states = [m for m in range(3) if c(i, m, S) >= before]
                total = sum(t[i - 1, m] for m in open_states)
                chance = chance * (t[i - 1, n] / total if n in open_states else 0.0)
                said = said * p[row, i - 1, n, y[i - 1]]
                before = c(i, n, S)
            likelihood = likelihood + chance * said
            late = late + chance * sum(c(i, n, S) - c(i, 0, S) for i, n in enumerate(path, 1)) / T
        nll, latency = nll - likelihood.log(), latency + late
        for i, n in itertools.product(range(T), range(3)):
            smooth = torch.full((zoo.VOCABULARY,), smoothing / zoo.VOCABULARY, dtype=p.dtype)
            smooth[y[i]] += 1 - smoothing
            states = states - (smooth * p[row, i, n].log()).sum() / 3
    total = nll + 0.7 * states + 0.3 * latency
    # float64: rounding only
    torch.testing.assert_close(loss.per_token["nll"], nll, rtol=1e-9, atol=0)
    torch.testing.assert_close(loss.per_sentence["latency"], latency, rtol=1e-9, atol=0)
    torch.testing.assert_close(loss.total, total, rtol=1e-9, atol=0)
    *tensors, instances, ends = batch
    more = Batch(*(pad(x, (0, 3), value=zoo.PAD) for x in tensors), instances, ends)
    padded = objective(made, more, TRAINED).total
    torch.testing.assert_close(padded, loss.total, rtol=1e-9, atol=0)


def test_translating_somewhere_is_certain():
    logit = torch.tensor([[[-800.0, 3.0, 0.0], [0.0, 0.0, 9.0], [700.0, -2.0, -1.0]]]).double()
    log_t = log_translate(logit)
    torch.testing.assert_close(log_t.logsumexp(-1), torch.zeros(1, 3).double(), rtol=0, atol=1e-12)
    assert log_t[0, 1].exp().tolist() == pytest.approx([0.5, 0.25, 0.25])


@torch.no_grad()
@pytest.mark.parametrize("threshold", [0.4, 0.5, 0.6])
def test_decoding_takes_the_first_state_that_translates(threshold):
    """The states are those of training; each token is written from the first that may be."""
    source, mask = zoo.sentences(6, 7)
    for seed in range(2):
        made = a_model(seed, threshold=threshold)
        state = made.start(made.encode(source, mask))
        token, tokens = torch.full_like(source[:, 0], zoo.BOS), []
        latest = [0] * len(source)
        for i in range(1, 6):
            tokens.append(token)
            step = made.step(token, state)
            all_states = made(source, mask, torch.stack(tokens, 1))
            for row, S in enumerate(mask.sum(1).tolist()):
                sure = all_states.confidence[row, -1].sigmoid()
                n = next(
                    n
                    for n in range(3)
                    if c(i, n, S) >= latest[row] and (n == 2 or sure[n] >= threshold)
                )
                read = c(i, n, S)
                assert step.read[row] == read
                logits = all_states.logits[row, -1, n]
                torch.testing.assert_close(step.logits[row], logits, rtol=0, atol=1e-9)  # rounding
                latest[row] = read
            token, state = step.logits[:, 4:].argmax(-1) + 4, step.state


def test_a_stream_computes_each_state_once():
    """States that wait for the source are computed when it comes, and never again."""
    made, (source, _) = a_model(first_read=1, states=4), zoo.sentences(1, 9)
    live = SentenceStream(made)
    for token in source[0].tolist():
        live.read_word([token])
        if live.done:
            return
        several = live.prefix.decoder.several
        computed = several.place[several.read < torch.iinfo(torch.long).max].tolist()
        assert len(computed) == len(set(computed)) == int(several.done.sum())
        assert live.prefix.decoder.layers[0].self_keys.shape[2] == several.place.shape[1]


@pytest.mark.parametrize(
    ("changes", "kind", "named"),
    [
        ({"states": 1}, "transformer", "mechanism.states is 1"),
        ({"target_unit": "word"}, "transformer", "target_unit"),
        ({}, "rnmt_plus", "model=transformer"),
        ({}, zoo.REENCODING, "encoder=causal"),
    ],
)
def test_what_cannot_be_is_an_error(changes, kind, named):
    with pytest.raises(UserError, match=named):
        zoo.SIZES[kind](mechanism=build_mechanism(OPTIONS | changes))


def test_the_latency_of_hmt_is_held_back_then_grows():
    made, batch = test_hmt.a_model(), test_hmt.a_batch()
    usual = {"label_smoothing": 0.1, "states": 0.7, "latency": 0.3}
    totals = [
        MarginalLikelihood(**usual, hold=2, warmup=4)(made, batch, Moment(update)).total.item()
        for update in (1, 3, 9)
    ]
    none = MarginalLikelihood(**usual | {"latency": 0.0}, hold=0, warmup=0)
    assert totals[0] == pytest.approx(none(made, batch, TRAINED).total.item())
    assert totals[1] == pytest.approx((totals[0] + totals[2]) / 2)
    assert totals[2] > totals[0]
