"""The LightningDataModule: batches for training and validation; training resumes mid-epoch."""

from collections.abc import Iterator
from dataclasses import dataclass

import pytorch_lightning as pl

from simulmt.console import say
from simulmt.data.batches import BucketBatches, check_budget, ordered_batches
from simulmt.data.encoded import Batch, EncodedSplit
from simulmt.processes import rank_and_world_size


@dataclass(frozen=True)
class ValidLoader:
    """Development batches of one rank."""

    split: EncodedSplit
    batches: list[list[int]] | BucketBatches

    def __len__(self) -> int:
        return len(self.batches)

    def __iter__(self) -> Iterator[Batch]:
        return (self.split.batch(rows) for rows in self.batches)


@dataclass(frozen=True)
class TrainLoader:
    """Shuffled training batches of one rank; a run resumes where it was saved."""

    split: EncodedSplit
    batches: BucketBatches

    def __len__(self) -> int:
        return len(self.batches)

    def __iter__(self) -> Iterator[Batch]:
        state = self.state_dict()
        if state["position"] >= len(self):
            self.batches.set_epoch(state["epoch"] + 1)
        yield from ValidLoader(self.split, self.batches)

    def state_dict(self) -> dict[str, int]:
        """Return the epoch, and the position within it."""
        return self.batches.state_dict()

    def load_state_dict(self, state: dict[str, int]) -> None:
        """Continue from the epoch and position of a checkpoint."""
        self.batches.load_state_dict(state)


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

    def __init__(self, train: EncodedSplit, valid: EncodedSplit, tokens: int, seed: int) -> None:
        super().__init__()
        check_budget(train.lengths, tokens)
        self.train = train
        self.valid = valid
        self.tokens = tokens
        self.seed = seed

    def train_dataloader(self) -> TrainLoader:
        """Return the batches of this rank."""
        assert self.trainer is not None
        rank, world_size = rank_and_world_size()
        batches = BucketBatches(
            self.train.lengths,
            self.tokens,
            seed=self.seed,
            rank=rank,
            world_size=world_size,
            multiple=self.trainer.accumulate_grad_batches,
        )
        if batches.skipped:
            say(
                f"left out {batches.skipped} training pairs of more than "
                f"data.batch_tokens={self.tokens} subwords"
            )
        return TrainLoader(self.train, batches)

    def val_dataloader(self) -> ValidLoader:
        """Return the batches of this rank; over all ranks every development pair comes once."""
        rank, world_size = rank_and_world_size()
        lengths = self.valid.lengths
        batches = ordered_batches(lengths, self.tokens, rank=rank, world_size=world_size)
        return ValidLoader(self.valid, batches)
