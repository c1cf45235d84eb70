import hashlib
import json
from collections import Counter
from itertools import chain, islice

import numpy as np
import pytest
import torch
from torch import Tensor

from simulmt.data.batches import BucketBatches, ordered_batches
from simulmt.data.encoded import EncodedSplit
from simulmt.errors import UserError
from simulmt.models.vocabulary import Vocabulary
from simulmt.training.datamodule import TrainLoader
from zoo import BOS, EOS, PAD

TOKENS = 256
LARGE = Vocabulary(1 << 31)


@pytest.fixture(scope="module")
def lengths() -> Tensor:
    generator = torch.Generator().manual_seed(3)
    base = torch.randint(2, 40, (1000, 1), generator=generator)
    return (base + torch.randint(-1, 6, (1000, 2), generator=generator)).clamp(min=1)


def check_budget(batches: list[list[int]], lengths: Tensor, tokens: int = TOKENS) -> None:
    for batch in batches:
        assert len(batch) * int(lengths[batch].max()) <= tokens


def test_a_batch_by_hand():
    batch = EncodedSplit.of([[8, 9], [7]], [[], [5, 6, 4]], Vocabulary(10)).batch([1, 0])
    assert batch.source.tolist() == [[7, EOS, PAD], [8, 9, EOS]]
    assert batch.target.tolist() == [[5, 6, 4, EOS], [EOS, PAD, PAD, PAD]]
    assert batch.index.tolist() == [1, 0]
    assert batch.past is None
    assert {part.dtype for part in batch[:-1]} == {torch.int64, torch.bool}
    assert batch.source_mask.tolist() == [[True, True, False], [True] * 3]
    assert batch.target_mask.tolist() == [[True] * 4, [True, False, False, False]]
    assert batch.target_input.tolist() == [[BOS, 5, 6, 4], [BOS, PAD, PAD, PAD]]
    assert torch.equal(batch.target_input != PAD, batch.target_mask)


def test_encoded_split_stores_and_returns():
    sources, targets = [[5, 6], [], [7]], [[8], [9, 10], []]
    split = EncodedSplit.of(iter(sources), targets, LARGE)
    assert [row.tolist() for row in split.sources] == [[*source, EOS] for source in sources]
    assert [row.tolist() for row in split.targets] == [[*target, EOS] for target in targets]
    assert split.lengths.tolist() == [[3, 2], [1, 3], [2, 1]]
    for size, dtype in ((65_536, np.uint16), (65_537, np.int32)):
        largest = EncodedSplit.of([[size - 1]], [[4]], Vocabulary(size)).sources
        assert (largest.values.dtype, largest[0].tolist()) == (dtype, [size - 1, EOS])
    assert len(EncodedSplit.of([], [], LARGE)) == 0


@pytest.mark.parametrize("world_size", [1, 3])
def test_bucket_batches_are_full_and_of_similar_lengths(lengths, world_size) -> None:
    ranks = [
        BucketBatches(lengths, TOKENS, seed=1, world_size=world_size, rank=rank)
        for rank in range(world_size)
    ]
    batches = [batch for sampler in ranks for batch in sampler.of_epoch(0)]
    assert [len([*sampler.of_epoch(0)]) for sampler in ranks] == [len(ranks[0])] * world_size
    check_budget(batches, lengths)
    assert all(batches)
    seen = Counter(chain.from_iterable(batches))
    assert {*seen} == {*range(len(lengths))}
    assert seen.total() - len(lengths) <= (world_size - 1) * TOKENS
    padded = sum(len(batch) * int(lengths[batch].max()) for batch in batches)
    assert int(lengths.amax(1).sum()) / padded > 0.9
    assert padded / (len(batches) * TOKENS) > 0.9


def test_epochs_differ_in_batches_but_not_in_length(lengths):
    sampler = BucketBatches(lengths, TOKENS, seed=1)
    epochs = []
    for epoch in range(4):
        epochs.append(list(sampler.of_epoch(epoch)))
        assert len(epochs[-1]) == len(sampler)
    sets = [{frozenset(batch) for batch in batches} for batches in epochs]
    assert len(sets[0] & sets[1]) < len(sets[0]) / 10
    assert list(BucketBatches(lengths, TOKENS, seed=2).of_epoch(0)) != epochs[0]
    firsts = [int(lengths[batch].max()) for batch in epochs[0]]
    assert firsts != sorted(firsts)
    # a run that is resumed with another version of simulmt, or elsewhere, goes on in this order
    digests = [hashlib.sha256(json.dumps(epoch).encode()).hexdigest()[:12] for epoch in epochs]
    assert digests[:2] == ["661d36337962", "04f2d68f3e20"]


def loader(lengths: Tensor, **settings: int) -> TrainLoader:
    """Batches of pairs of these lengths, EOS included."""
    sources, targets = ([[4] * (size - 1) for size in side] for side in lengths.T.tolist())
    split = EncodedSplit.of(sources, targets, LARGE)
    return TrainLoader(split, BucketBatches(lengths, TOKENS, **settings))


@pytest.mark.parametrize("world_size", [1, 3])
@pytest.mark.parametrize("done", [0, 5, None])
def test_resume_equals_uninterrupted(lengths, done, world_size):
    def make() -> TrainLoader:
        return loader(lengths, seed=1, world_size=world_size, rank=world_size - 1)

    def read(loader: TrainLoader, batches: int | None = None) -> list[list[int]]:
        return [batch.index.tolist() for batch in islice(loader, batches)]

    whole, interrupted, resumed = make(), make(), make()
    read(whole)
    expected, following = read(whole), read(whole)
    assert expected != following
    read(interrupted)
    first = read(interrupted, done)
    state = json.loads(json.dumps(interrupted.state_dict()))
    if done != 0:  # an epoch begins with its first batch
        assert (state["epoch"], state["position"]) == (1, len(first))
    resumed.load_state_dict(state)
    assert resumed.state_dict() == state
    assert len(resumed) == len(expected)
    rest = [] if done is None else read(resumed)
    assert first + rest == expected
    assert read(resumed) == following


def test_resuming_with_other_settings_is_an_error(lengths):
    state = loader(lengths, seed=1).state_dict()
    for other, given in (
        (loader(lengths, seed=2), state),
        (loader(lengths, seed=1, world_size=2), state),
        (loader(lengths[1:] * 2, seed=1), state),
        (loader(lengths, seed=1), {"epoch": 0}),
        (loader(lengths.flip(0), seed=1), state),
        (loader(lengths, seed=1), {**state, "tokens": TOKENS - 1}),
    ):
        with pytest.raises(UserError, match="resume"):
            other.load_state_dict(given)


def test_pairs_beyond_the_budget_are_skipped_in_training_alone():
    lengths = torch.tensor([[3, 4], [50, 2], [5, 5], [2, 51], [10, 10]])
    sampler = BucketBatches(lengths, 10, seed=0)
    assert sampler.skipped == 2
    assert sorted(chain.from_iterable(sampler.of_epoch(0))) == [0, 2, 4]
    assert ordered_batches(lengths[:3], 10) == [[0, 2], [1]]
    with pytest.raises(UserError, match=r"tokens=9 .*3 of 5.*51"):
        BucketBatches(lengths, 9, seed=0)
    with pytest.raises(UserError, match="the train split is empty"):
        BucketBatches(lengths[:0], 10, seed=0)


@pytest.mark.parametrize("multiple", [1, 3, 4])
def test_steps_are_a_multiple_and_ranks_have_as_many(multiple):
    batches = BucketBatches(torch.full((50, 2), 5), 25, seed=1, multiple=multiple)
    assert len(batches) == len([*batches.of_epoch(0)]) == -(-10 // multiple) * multiple
    few = torch.full((4, 2), 5)
    sized = [BucketBatches(few, 10, seed=0, world_size=5, rank=rank) for rank in range(5)]
    ranks = [[*one.of_epoch(0)] for one in sized]
    assert [len(batches) for batches in ranks] == [1] * 5
    assert {*chain.from_iterable(chain.from_iterable(ranks))} == {0, 1, 2, 3}


@pytest.mark.parametrize("world_size", [1, 2, 5])
def test_ordered_batches(lengths, world_size):
    def ranks(lengths: Tensor, tokens: int) -> list[list[list[int]]]:
        ranks = range(world_size)
        return [ordered_batches(lengths, tokens, world_size=world_size, rank=n) for n in ranks]

    batches = ranks(lengths, TOKENS)
    assert max(map(len, batches)) - min(map(len, batches)) <= 1
    flat = list(chain.from_iterable(batches))
    check_budget(flat, lengths)
    assert sorted(chain.from_iterable(flat)) == list(range(len(lengths)))
    if world_size == 1:
        order = lengths[list(chain.from_iterable(flat)), 0].tolist()
        assert order == sorted(order)
    few = torch.full((world_size, 2), 5)
    assert all(ranks(few, 1000)), "every rank has something to evaluate"
    with pytest.raises(UserError, match=rf"{world_size - 1} pairs|empty"):
        ranks(few[1:], 1000)


def test_batches_hold_the_pairs_of_their_split() -> None:
    rows = [[4 + n] * (1 + n % 9) for n in range(50)]
    split = EncodedSplit.of(rows, reversed(rows), LARGE)
    seen = []
    for batch in TrainLoader(split, BucketBatches(split.lengths, 40, seed=0)):
        for row, n in enumerate(batch.index.tolist()):
            assert batch.source[row][batch.source_mask[row]].tolist() == split.sources[n].tolist()
            assert batch.target[row][batch.target_mask[row]].tolist() == split.targets[n].tolist()
            seen.append(n)
    assert sorted(seen) == list(range(50))
