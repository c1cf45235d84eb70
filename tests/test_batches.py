from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from collections import Counter
from itertools import chain
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from simulmt.data.batches import BucketBatches, ordered_batches
from simulmt.data.corpus import Split
from simulmt.data.encoded import EncodedSplit
from simulmt.data.reader import read_text
from simulmt.data.subwords import Subwords
from simulmt.errors import UserError
from simulmt.models.vocabulary import Vocabulary
from simulmt.training.datamodule import TrainLoader, ValidLoader
from zoo import BOS, EOS, PAD

SHARED = Path(__file__).parents[2] / "shared" / "data"
TOKENS = 256
LARGE = Vocabulary(1 << 31)


def draw_lengths(count: int = 1000) -> Tensor:
    generator = torch.Generator().manual_seed(3)
    base = torch.randint(2, 40, (count, 1), generator=generator)
    return (base + torch.randint(-1, 6, (count, 2), generator=generator)).clamp(min=1)


@pytest.fixture
def lengths() -> Tensor:
    return draw_lengths()


def check_budget(batches: list[list[int]], lengths: Tensor, tokens: int = TOKENS) -> None:
    for batch in batches:
        assert len(batch) * int(lengths[batch].max()) <= tokens


def test_a_batch_by_hand() -> None:
    batch = EncodedSplit.of([[8, 9], [7]], [[], [5, 6, 4]], Vocabulary(10)).batch([1, 0])
    assert batch.source.tolist() == [[7, EOS, PAD], [8, 9, EOS]]
    assert batch.target.tolist() == [[5, 6, 4, EOS], [EOS, PAD, PAD, PAD]]
    assert batch.index.tolist() == [1, 0]
    assert {part.dtype for part in batch} == {torch.int64, torch.bool}
    assert batch.source_mask.tolist() == [[True, True, False], [True] * 3]
    assert batch.target_mask.tolist() == [[True] * 4, [True, False, False, False]]
    assert batch.target_input.tolist() == [[BOS, 5, 6, 4], [BOS, PAD, PAD, PAD]]
    assert torch.equal(batch.target_input != PAD, batch.target_mask)


def test_encoded_split_stores_and_returns() -> None:
    sources, targets = [[5, 6], [], [7]], [[8], [9, 10], []]
    split = EncodedSplit.of(iter(sources), targets, LARGE)
    assert len(split) == 3
    assert [row.tolist() for row in split.sources] == [[*source, EOS] for source in sources]
    assert [row.tolist() for row in split.targets] == [[*target, EOS] for target in targets]
    assert split.lengths.tolist() == [[3, 2], [1, 3], [2, 1]]
    assert split.sources.values.dtype == np.int32
    small = EncodedSplit.of([[65_535]], [[4]], Vocabulary(65_536))
    assert small.sources.values.dtype == np.uint16
    assert small.sources[0].tolist() == [65_535, EOS]
    large = EncodedSplit.of([[65_536]], [[4]], Vocabulary(65_537))
    assert large.sources[0].tolist() == [65_536, EOS]
    assert len(EncodedSplit.of([], [], LARGE)) == 0
    with pytest.raises(AssertionError, match="as many sources as targets"):
        EncodedSplit.of([[5]], [], LARGE)


def test_encodes_a_split() -> None:
    lines = ["ein Hut", "zwei Hüte", "a hat", "two hats"]
    subwords = Subwords.train(lines, 20, "bpe")
    split = EncodedSplit.encode(Split(lines[:2], lines[2:]), subwords)
    source, target = split.sources[1].tolist(), split.targets[1].tolist()
    assert (subwords.decode(source), subwords.decode(target)) == (lines[1], lines[3])
    assert source == [*subwords.encode(lines[1]), EOS]


@pytest.mark.parametrize("world_size", [1, 3])
def test_bucket_batches_respect_the_budget(lengths: Tensor, world_size: int) -> None:
    seen: Counter[int] = Counter()
    steps = set()
    for rank in range(world_size):
        sampler = BucketBatches(lengths, TOKENS, seed=1, world_size=world_size, rank=rank)
        batches = list(sampler)
        check_budget(batches, lengths)
        assert len(batches) == len(sampler)
        assert all(batches)
        steps.add(len(batches))
        seen.update(chain.from_iterable(batches))
    assert len(steps) == 1
    assert set(seen) == set(range(len(lengths)))
    repeated = sum(count - 1 for count in seen.values())
    assert repeated <= (world_size - 1) * TOKENS
    assert world_size > 1 or repeated == 0


def test_batches_are_full_and_of_similar_lengths(lengths: Tensor) -> None:
    batches = list(BucketBatches(lengths, TOKENS, seed=1))
    padded = sum(len(batch) * int(lengths[batch].max()) for batch in batches)
    assert int(lengths.amax(1).sum()) / padded > 0.9
    assert padded / (len(batches) * TOKENS) > 0.9


def test_epochs_differ_in_batches_but_not_in_length(lengths: Tensor) -> None:
    sampler = BucketBatches(lengths, TOKENS, seed=1)
    epochs = []
    for epoch in range(4):
        sampler.set_epoch(epoch)
        epochs.append(list(sampler))
        assert len(epochs[-1]) == len(sampler)
    sets = [{frozenset(batch) for batch in batches} for batches in epochs]
    assert len(sets[0] & sets[1]) < len(sets[0]) / 10
    sampler.set_epoch(0)
    assert list(sampler) == epochs[0]
    other = list(BucketBatches(lengths, TOKENS, seed=2))
    assert other != epochs[0]
    firsts = [int(lengths[batch].max()) for batch in epochs[0]]
    assert firsts != sorted(firsts)


def test_bucket_batches_are_the_same_in_another_process() -> None:
    program = (
        "import sys, json; sys.path.insert(0, sys.argv[1]); import test_batches as t\n"
        "s = t.BucketBatches(t.draw_lengths(), 256, seed=5, world_size=3, rank=1)\n"
        "s.set_epoch(2); print(json.dumps(list(s)))"
    )
    run = subprocess.run(
        [sys.executable, "-c", program, str(Path(__file__).parent)],
        capture_output=True,
        text=True,
        check=True,
    )
    sampler = BucketBatches(draw_lengths(), 256, seed=5, world_size=3, rank=1)
    sampler.set_epoch(2)
    assert json.loads(run.stdout) == list(sampler)


def test_the_order_of_batches_stays_the_same(lengths: Tensor) -> None:
    sampler = BucketBatches(lengths, TOKENS, seed=1)
    digests = []
    for epoch in range(2):
        sampler.set_epoch(epoch)
        digests.append(hashlib.sha256(json.dumps([*sampler]).encode()).hexdigest()[:12])
    assert digests == ["661d36337962", "04f2d68f3e20"]


@pytest.mark.parametrize("done", [0, 1, 5, 30])
def test_a_loader_that_is_ahead_resumes_after_the_last_trained_batch(done: int) -> None:
    rows = [[4 + n] * (1 + n % 9) for n in range(300)]
    split = EncodedSplit.of(rows, rows, LARGE)

    def make() -> TrainLoader:
        return TrainLoader(split, BucketBatches(split.lengths, 40, seed=0))

    expected = [batch.index.tolist() for loader in [make()] for _ in range(2) for batch in loader]
    loader = make()
    batches = iter(loader)
    trained = [next(batches).index.tolist() for _ in range(done)]
    state = json.loads(json.dumps(loader.state_dict()))
    assert (state["epoch"], state["position"]) == (0, done)
    resumed = make()
    resumed.load_state_dict(state)
    assert resumed.state_dict() == state
    rest = [batch.index.tolist() for _ in range(2) for batch in resumed]
    assert trained + rest == expected


def test_an_error_in_a_batch_is_raised_where_the_batch_is_taken() -> None:
    split = EncodedSplit.of([[5]], [[5]], LARGE)
    batches = iter(ValidLoader(split, [[0], [7]]))
    assert len(next(batches).index) == 1
    with pytest.raises(IndexError):
        next(batches)


@pytest.mark.parametrize("world_size", [1, 3])
@pytest.mark.parametrize("done", [0, 1, 5])
def test_resume_equals_uninterrupted(lengths: Tensor, done: int, world_size: int) -> None:
    def make() -> BucketBatches:
        return BucketBatches(lengths, TOKENS, seed=1, world_size=world_size, rank=world_size - 1)

    whole = make()
    whole.set_epoch(3)
    expected = list(whole)
    whole.set_epoch(4)
    following = list(whole)

    interrupted = make()
    interrupted.set_epoch(3)
    iterator = iter(interrupted)
    first = [next(iterator) for _ in range(done)]
    state = json.loads(json.dumps(interrupted.state_dict()))
    assert (state["epoch"], state["position"]) == (3, done)

    resumed = make()
    resumed.load_state_dict(state)
    assert resumed.state_dict() == state
    resumed.set_epoch(3)
    assert len(resumed) == len(expected)
    assert first + list(resumed) == expected
    assert list(resumed) == expected
    resumed.set_epoch(4)
    assert resumed.state_dict()["position"] == 0
    assert list(resumed) == following


def test_resume_at_the_end_and_at_another_epoch(lengths: Tensor) -> None:
    sampler = BucketBatches(lengths, TOKENS, seed=1)
    expected = list(sampler)
    state = sampler.state_dict()
    resumed = BucketBatches(lengths, TOKENS, seed=1)
    resumed.load_state_dict(state)
    assert list(resumed) == []
    resumed.load_state_dict(state)
    resumed.set_epoch(1)
    assert len(list(resumed)) == len(expected)


def test_resume_refuses_other_settings(lengths: Tensor) -> None:
    state = BucketBatches(lengths, TOKENS, seed=1).state_dict()
    for other in (
        BucketBatches(lengths, TOKENS, seed=2),
        BucketBatches(lengths, TOKENS, seed=1, world_size=2),
        BucketBatches(lengths[1:] * 2, TOKENS, seed=1),
    ):
        with pytest.raises(UserError, match=r"cannot resume .*'seed': 1.*restore data, tokens"):
            other.load_state_dict(state)
    with pytest.raises(UserError, match="cannot resume"):
        BucketBatches(lengths, TOKENS, seed=1).load_state_dict({"epoch": 0})


def test_more_ranks_than_batches() -> None:
    ranks = [
        list(BucketBatches(torch.full((4, 2), 5), 10, seed=0, world_size=5, rank=rank))
        for rank in range(5)
    ]
    assert [len(batches) for batches in ranks] == [1] * 5
    assert set(chain.from_iterable(chain.from_iterable(ranks))) == {0, 1, 2, 3}


def test_pairs_beyond_the_budget_are_skipped() -> None:
    lengths = torch.tensor([[3, 4], [50, 2], [5, 5], [2, 51], [10, 10]])
    sampler = BucketBatches(lengths, 10, seed=0)
    assert sampler.skipped == 2
    assert sorted(chain.from_iterable(sampler)) == [0, 2, 4]
    wanted = r"tokens=9 per batch is too few: 3 of 5 pairs are longer; raise it to 51"
    with pytest.raises(UserError, match=wanted):
        BucketBatches(lengths, 9, seed=0)


def test_an_empty_split(lengths: Tensor) -> None:
    with pytest.raises(UserError, match=r"no train pairs .*check the data"):
        BucketBatches(lengths[:0], TOKENS, seed=0)
    with pytest.raises(UserError, match=r"no pairs .*check the data"):
        ordered_batches(lengths[:0], TOKENS)


@pytest.mark.parametrize("world_size", [1, 2, 5])
def test_ordered_batches(lengths: Tensor, world_size: int) -> None:
    batches = [
        ordered_batches(lengths, TOKENS, world_size=world_size, rank=rank)
        for rank in range(world_size)
    ]
    assert max(map(len, batches)) - min(map(len, batches)) <= 1
    flat = list(chain.from_iterable(batches))
    check_budget(flat, lengths)
    assert sorted(chain.from_iterable(flat)) == list(range(len(lengths)))
    if world_size == 1:
        order = lengths[list(chain.from_iterable(flat)), 0].tolist()
        assert order == sorted(order)


def test_ordered_batches_keep_long_pairs() -> None:
    lengths = torch.tensor([[3, 4], [50, 2], [5, 5]])
    assert ordered_batches(lengths, 10) == [[0, 2], [1]]


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


@pytest.mark.skipif(not SHARED.is_dir(), reason="no real corpora beside the repository")
def test_real_corpus() -> None:
    folder = str(SHARED / "multi30k")
    corpus = read_text(folder, "de", "en", "train", "val", "test_2016_flickr", 100, "multi30k")
    train = corpus.splits["train"]
    subwords = Subwords.train(train.sample(), 4000, "bpe")
    split = EncodedSplit.encode(train, subwords)
    sampler = BucketBatches(split.lengths, 4096, seed=0)
    batches = list(sampler)
    check_budget(batches, split.lengths, 4096)
    assert sampler.skipped == 0
    padded = sum(len(batch) * int(split.lengths[batch].max()) for batch in batches)
    assert padded / (4096 * len(batches)) > 0.97


@pytest.mark.parametrize("world_size", [1, 2, 7])
def test_every_rank_has_something_to_evaluate(world_size: int) -> None:
    lengths = torch.full((7, 2), 5)
    ranks = [
        ordered_batches(lengths, 1000, world_size=world_size, rank=rank)
        for rank in range(world_size)
    ]
    assert all(ranks)
    assert sorted(i for batches in ranks for batch in batches for i in batch) == list(range(7))


def test_more_ranks_than_pairs() -> None:
    with pytest.raises(UserError, match="7 pairs for 8 process"):
        ordered_batches(torch.full((7, 2), 5), 1000, world_size=8)


@pytest.mark.parametrize("multiple", [1, 3, 4])
def test_steps_are_a_multiple(multiple: int) -> None:
    batches = BucketBatches(torch.full((50, 2), 5), 25, seed=1, multiple=multiple)
    assert len(batches) == len([*batches]) == -(-10 // multiple) * multiple
