"""Training pairs of documents, whose sources go on into the sentences that follow."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import zoo
from simulmt.attention import TRAINED, Past
from simulmt.data.encoded import EncodedSplit
from simulmt.data.windows import WindowOptions, Windows
from simulmt.models.transformer import Transformer
from simulmt.models.vocabulary import Vocabulary
from simulmt.objective import LatencyAugmented
from test_objective import SETTINGS
from test_self_modifying import a_batch

DOCUMENTS = [range(3), range(3, 4), range(4, 40)]


@pytest.fixture
def pairs() -> EncodedSplit:
    rng = np.random.default_rng(0)
    rows = [rng.integers(4, 50, rng.integers(1, 9)).tolist() for _ in range(80)]
    return EncodedSplit.of(rows[:40], rows[40:], Vocabulary(50))


@pytest.mark.parametrize("ahead", [0, 1, 7, 1000])
@pytest.mark.parametrize("told", [0, 0.5, 1])
def test_a_source_goes_on_in_its_document(pairs: EncodedSplit, ahead: int, told: float) -> None:
    windows = Windows(pairs, DOCUMENTS, WindowOptions(ahead, told))
    rows = [*range(len(windows))]
    batch, plain = windows.batch(rows), pairs.batch(rows)
    for own, other in ((batch.target, plain.target), (batch.target_input, plain.target_input)):
        assert own.equal(other)
    assert batch.source_end.equal(plain.source_mask.sum(1) - 1)
    assert windows.lengths[:, 0].tolist() == batch.source_mask.sum(1).tolist()
    assert windows.lengths[:, 1].equal(pairs.lengths[:, 1])
    told_end = 0
    for document in DOCUMENTS:
        text = [token for row in document for token in pairs.sources[row][:-1].tolist()]
        start = 0
        for row in document:
            own = int(batch.source_end[row])
            end = start + own
            source = batch.source[row][batch.source_mask[row]].tolist()
            if source == [*text[start:end], zoo.EOS] and end < len(text):
                told_end += 1
            else:
                rest = text[start:]
                assert source == (
                    [*rest, zoo.EOS] if len(rest) <= own + ahead else rest[: own + ahead]
                )
            start = end
    inner = sum(len(document) - 1 for document in DOCUMENTS)
    assert told_end == inner if told == 1 else told_end < inner
    assert told_end > 0 if told else told_end == 0


def test_the_pointer_learns_where_sentences_end(pairs: EncodedSplit) -> None:
    """Its loss is the likelihood of the true ends, and its gradient reaches pointer and model."""
    windows = Windows(pairs, DOCUMENTS, WindowOptions(7, 0.5))
    batch = windows.batch([0, 5, 9, 20])
    model = Transformer(
        vocabulary=Vocabulary(50), mechanism=zoo.case(zoo.options("mma_il")).mechanism, dim=16,
        ffn=16, heads=2, encoder_layers=1, decoder_layers=1, dropout=0, norm="pre",
        encoder="causal", boundaries=True,
    )  # fmt: skip
    assert model.boundary is not None
    source = model.encode(batch.source, batch.source_mask)
    states = model.decode(source, batch.target_input).states
    expected = torch.zeros(())
    for row, end in enumerate(batch.source_end.tolist()):
        last = int(batch.target_mask[row].sum()) - 1
        query = model.boundary.query(states[row, last])
        keys = model.boundary.key(source.states[row][batch.source_mask[row]])
        expected = expected - (keys @ query / 4).log_softmax(0)[end - 1]  # the root of 16 is 4
    masks = batch.target_mask, batch.source_mask
    loss = model.boundary.loss(states, source.states, *masks, batch.source_end)
    torch.testing.assert_close(loss, expected)
    loss.backward()
    assert model.embedding.weight.grad is not None
    assert model.boundary.key.weight.grad is not None


def flat(rows: list[list[int]]) -> list[int]:
    return [token for row in rows for token in row]


def test_a_pair_sees_the_pairs_before_it(pairs: EncodedSplit) -> None:
    """The past is what precedes it in its document, up to a number of tokens on either side."""
    windows = Windows(pairs, DOCUMENTS, WindowOptions(7, 0.5, history=20))
    batch, counts = windows.batch([*range(len(windows))]), set()
    assert batch.past is not None
    real = batch.source_mask.sum(1) + batch.past.source_mask.sum(1)
    assert windows.lengths[:, 0].tolist() == real.tolist()
    real = batch.target_mask.sum(1) + batch.past.target_mask.sum(1)
    assert windows.lengths[:, 1].tolist() == real.tolist()
    sides = zip(*batch.past, strict=True)
    for row, (source, source_mask, target, target_mask) in enumerate(sides):
        start = next(document.start for document in DOCUMENTS if row in document)
        sources = [pairs.sources[n][:-1].tolist() for n in range(start, row)]
        targets = [pairs.targets[n].tolist() for n in range(start, row)]
        possible = [(flat(sources[n:]), flat(targets[n:])) for n in range(len(sources) + 1)]
        found = source[source_mask].tolist(), target[target_mask].tolist()
        assert found in possible
        assert max(map(len, found)) <= 20
        counts.add(len(sources) - possible.index(found))
        for mask in (source_mask, target_mask):
            assert mask.tolist() == sorted(mask.tolist())  # padded on the left
    assert {0, 1, 2} <= counts
    alone = windows.batch([0])  # the first one of a document
    assert alone.past is not None
    assert alone.past.source.shape == (1, 0)


def test_every_pair_has_a_prefix(pairs: EncodedSplit) -> None:
    """Both sides are cut at one share; BOS ends the target; the other pairs are as without."""
    alone, windows = (
        Windows(pairs, DOCUMENTS, WindowOptions(7, 0.5, prefixes)) for prefixes in (False, True)
    )
    count = len(pairs)
    assert len(windows) == 2 * count
    assert windows.lengths[:count].equal(alone.lengths)
    for row in range(count):
        for own, other in zip(windows.batch([row])[:-1], alone.batch([row])[:-1], strict=True):
            assert own.equal(other)
        batch = windows.batch([count + row])
        source, target = batch.source[0].tolist(), batch.target[0].tolist()
        sides = pairs.sources[row][:-1].tolist(), pairs.targets[row][:-1].tolist()
        assert source == sides[0][: len(source)]
        assert target == [*sides[1][: len(target) - 1], zoo.BOS]
        assert batch.index.tolist() == [row]
        assert batch.source_end.tolist() == [len(source)]
        assert windows.lengths[count + row].tolist() == [len(source), len(target)]
        shares = len(source) / len(sides[0]), (len(target) - 1) / len(sides[1])
        least = min(map(len, sides))  # rounding; of the source there is at least a token
        assert abs(shares[0] - shares[1]) < 1 / least or len(source) == 1
    mixed = windows.batch([3, count + 3, 4])
    assert (
        mixed.source[1][mixed.source_mask[1]].tolist()
        == windows.batch([count + 3]).source[0].tolist()
    )


def test_the_objective_has_the_pointer_in_its_total_and_sees_the_past():
    model, batch = zoo.model(zoo.options("mma_il"), boundaries=True, history=20), a_batch()
    last = batch.target_mask.sum(1) - 1
    prefix = batch.target.index_put((torch.arange(len(last))[:1], last[:1]), torch.tensor(zoo.BOS))
    batch = batch._replace(
        past=Past(*(x.flip(1) for x in batch[:4])),
        source_end=batch.source_end.clamp(min=1),
        target=prefix,  # of the first pair, whose end is none
    )
    objective = LatencyAugmented(**SETTINGS)
    source = model.encode(batch.source, batch.source_mask, batch.past)
    found = model.decode(source, batch.target_input)
    masks = batch.target_mask, batch.source_mask
    parts = found.states, source.states, *masks, batch.source_end
    pointed = model.boundary.loss(*(part[1:] for part in parts))
    expected = objective.loss(found, batch, 0).total + pointed
    torch.testing.assert_close(objective(model, batch, TRAINED).total, expected)
