"""The LightningDataModule: batches for training and validation; training resumes mid-epoch."""

from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import pytorch_lightning as pl
from torch import Tensor

from simulmt.data.batches import BucketBatches, check_budget, ordered_batches
from simulmt.data.encoded import EncodedSplit
from simulmt.data.windows import Windows
from simulmt.errors import UserError
from simulmt.objective.batch import Batch
from simulmt.system.console import say
from simulmt.system.processes import rank_and_world_size

_AHEAD = 4  # batches


@dataclass(frozen=True)
class ValidLoader:
    """Development batches of one rank."""

    split: EncodedSplit
    batches: list[list[int]]
    pinned: bool = False

    def __len__(self) -> int:
        return len(self.batches)

    def __iter__(self) -> Iterator[Batch]:
        return made_ahead(self.split, self.batches, self.pinned)


class TrainLoader:
    """Shuffled training batches of one rank; a run resumes where it was saved.

    Args:
        split: the training split.
        batches: the order of the batches.
        pinned: put the batches into pinned (page-locked) memory, for faster copies to a GPU.
    """

    def __init__(
        self, split: EncodedSplit | Windows, batches: BucketBatches, pinned: bool = False
    ) -> None:
        self._split, self._batches, self._pinned = split, batches, pinned
        self._epoch = self._first = self._trained = 0  # the next few batches are made already

    def __len__(self) -> int:
        return len(self._batches)

    def __iter__(self) -> Iterator[Batch]:
        if self._trained >= len(self):
            self._epoch, self._first = self._epoch + 1, 0
        self._trained, self._first = self._first, 0
        order = self._batches.of_epoch(self._epoch, self._trained)
        for batch in made_ahead(self._split, order, self._pinned):
            self._trained += 1
            yield batch

    def state_dict(self) -> dict[str, int]:
        """Return the epoch, the position within it, and what must stay when a run resumes."""
        return {"epoch": self._epoch, "position": self._trained, **self._batches.settings}

    def load_state_dict(self, state: dict[str, int]) -> None:
        """Make the next iteration resume at `state`; UserError if the settings differ."""
        check_order(state, self._batches.settings)
        self._epoch, self._first = state["epoch"], state["position"]
        self._trained = self._first


def check_order(state: Mapping[str, int], settings: Mapping[str, int]) -> None:
    """Reject a saved state of `TrainLoader` whose batches are others than those of `settings`.

    Raises:
        UserError: they are.
    """
    if (there := {name: state.get(name) for name in settings}) != settings:
        raise UserError(
            f"cannot resume within an epoch: the checkpoint has {there}, this run has "
            f"{settings}; restore the checkpoint's data, data.batch_tokens, seed and number of "
            "processes, or start from its weights with init_from"
        )


def made_ahead(
    split: EncodedSplit | Windows, batches: Iterable[list[int]], pinned: bool
) -> Iterator[Batch]:
    """Yield batches that a thread makes while the step before runs.

    Args:
        split: the pairs.
        batches: the places of the pairs of each batch.
        pinned: put them into pinned (page-locked) memory, for faster copies to a GPU.
    """

    def make(rows: list[int]) -> Batch:
        batch = split.batch(rows)
        return batch.each(Tensor.pin_memory) if pinned else batch

    made = map(make, batches)
    with ThreadPoolExecutor(1) as thread:
        waiting = deque(thread.submit(next, made, None) for _ in range(_AHEAD))
        while (batch := waiting.popleft().result()) is not None:
            waiting.append(thread.submit(next, made, None))
            yield batch


class TranslationData(pl.LightningDataModule):
    """Gives the trainer the batches of the encoded splits.

    Args:
        train: training split.
        valid: development split.
        tokens: token budget of a batch (sentences times the longer side).
        seed: seed of the shuffling.

    Raises:
        UserError: most training pairs are longer than a batch may be.
    """

    def __init__(
        self, train: EncodedSplit | Windows, valid: EncodedSplit, tokens: int, seed: int
    ) -> None:
        super().__init__()
        check_budget(train.lengths, tokens)
        self.train, self.valid, self.tokens, self.seed = train, valid, tokens, seed

    def train_dataloader(self) -> TrainLoader:
        """Return the batches of this rank."""
        assert self.trainer is not None
        rank, world_size = rank_and_world_size()
        batches = self.order(self.trainer.accumulate_grad_batches, world_size, rank)
        if batches.skipped:
            limit = f"data.batch_tokens={self.tokens:,} subwords"
            say(f"left out {batches.skipped:,} training pairs with more than {limit}")
        return TrainLoader(self.train, batches, self._pinned)

    def order(self, multiple: int, world_size: int, rank: int = 0) -> BucketBatches:
        """Return the training batches of a rank; arguments as of `BucketBatches`."""
        ranks = {"rank": rank, "world_size": world_size}
        lengths = self.train.lengths
        return BucketBatches(lengths, self.tokens, seed=self.seed, multiple=multiple, **ranks)

    def val_dataloader(self) -> ValidLoader:
        """Return the batches of this rank; over all ranks every development pair comes once."""
        rank, world_size = rank_and_world_size()
        batches = ordered_batches(self.valid.lengths, self.tokens, rank=rank, world_size=world_size)
        return ValidLoader(self.valid, batches, self._pinned)

    @property
    def _pinned(self) -> bool:
        assert self.trainer is not None
        return self.trainer.strategy.root_device.type == "cuda"
