"""The order of batches, which is the same on every rank and after a resume."""

import zlib
from collections.abc import Iterator
from typing import Any

import numpy as np
from jaxtyping import Int
from numpy.typing import NDArray
from torch import Tensor

from simulmt.errors import UserError

Places = NDArray[np.int32]  # of pairs in their split


class BucketBatches:
    """Training batches of similar lengths, in another order in every epoch.

    Every rank computes the same list from seed and epoch, and takes every `world_size`-th batch. A
    few batches are repeated, so that every rank takes the same number of steps in every epoch.

    Attributes:
        skipped: The number of pairs that are longer than the budget.
        settings: What a run that resumes within an epoch must have, too.
    """

    def __init__(
        self,
        lengths: Int[Tensor, "N 2"],
        tokens: int,
        *,
        seed: int,
        world_size: int = 1,
        rank: int = 0,
        multiple: int = 1,
    ) -> None:
        """Sort pairs into buckets; pairs longer than the budget are left out, and `skipped`.

        Args:
            lengths: tokens of source and target, EOS included.
            tokens: budget of a batch, padding included: B * max(S, T) <= tokens.
            seed: decides the order, together with the epoch.
            world_size: number of processes that share the batches.
            rank: the rank of this process, from 0.
            multiple: the number of steps is a multiple of this (accumulated batches).

        Raises:
            UserError: there are no pairs, or more than half are longer than the budget.
        """
        self.skipped = check_budget(lengths, tokens)
        self._buckets = _buckets(lengths.amax(1).numpy(), tokens)
        self._seed, self._world_size, self._rank = seed, world_size, rank
        self._steps = -(-len(self._batches(0)) // (world_size * multiple)) * multiple
        self.settings = {"seed": seed, "world_size": world_size, "steps": self._steps}
        self.settings["tokens"] = tokens  # others may give as many steps
        self.settings["lengths"] = zlib.crc32(lengths.numpy().tobytes())  # of windows, too

    def __len__(self) -> int:
        """Return the steps of an epoch on this rank."""
        return self._steps

    def of_epoch(self, epoch: int, start: int = 0) -> Iterator[list[int]]:
        """Yield the batches of an epoch, from the one after `start` batches on."""
        batches = self._batches(epoch)
        order = np.random.default_rng((self._seed, epoch, 1)).permutation(len(batches))
        order = np.resize(order, self._steps * self._world_size)
        for batch in order[self._rank :: self._world_size][start:]:
            yield batches[batch].tolist()

    def _batches(self, epoch: int) -> list[Places]:
        """Return all batches, short pairs first; the rest of a bucket joins the next bucket."""
        rng = np.random.default_rng((self._seed, epoch))
        rest = np.empty(0, dtype=np.int32)
        batches: list[Places] = []
        for members, count in self._buckets:
            pool = rng.permutation(np.concatenate([rest, members]))
            full = len(pool) // count * count
            batches += list(pool[:full].reshape(-1, count))
            rest = pool[full:]
        return [*batches, rest] if len(rest) else batches


def ordered_batches(
    lengths: Int[Tensor, "N 2"], tokens: int, *, world_size: int = 1, rank: int = 0
) -> list[list[int]]:
    """Return the evaluation batches of a rank, shortest sources first.

    Over all ranks every pair occurs once, and some ranks may have one batch fewer. A pair longer
    than the budget is a separate batch.

    Args:
        lengths: tokens of source and target, EOS included.
        tokens: budget of a batch, padding included: B * max(S, T) <= tokens.
        world_size: number of processes that share the batches.
        rank: the rank of this process, from 0.

    Raises:
        UserError: there are fewer pairs than processes, or none.
    """
    check_enough(len(lengths), world_size)
    while len(batches := _in_order(lengths, tokens)) < world_size:  # every process needs a batch
        tokens //= 2
    return batches[rank::world_size]


def _in_order(lengths: Int[Tensor, "N 2"], tokens: int) -> list[list[int]]:
    """Return batches of at most `tokens` tokens, shortest sources first."""
    batches: list[list[int]] = [[]]
    longest = 0
    order = np.lexsort(lengths.numpy().T[::-1]).tolist()
    for index, size in zip(order, lengths.amax(1)[order].tolist(), strict=True):
        count, longest = len(batches[-1]) + 1, max(longest, size)
        if count > 1 and count * longest > tokens:
            batches.append([])
            longest = size
        batches[-1].append(index)
    return batches


def check_budget(lengths: Int[Tensor, "N 2"], tokens: int) -> int:
    """Return the number of training pairs that are longer than the budget of a batch.

    Raises:
        UserError: more than half of the pairs are longer, or there are no pairs.
    """
    check_enough(len(lengths), 1, "train")
    sizes = lengths.amax(1)
    longer = int((sizes > tokens).sum())
    if 2 * longer > len(sizes):
        raise UserError(
            f"batch_tokens={tokens} is too small: {longer} of {len(sizes)} pairs are longer; "
            f"raise it to {int(sizes.max())} to keep all, or drop long pairs (max_words)"
        )
    return longer


def check_enough(pairs: int, processes: int, split: str = "") -> None:
    """Raise a UserError if a split is empty, or has fewer pairs than the run has processes."""
    if pairs < max(processes, 1):
        if not pairs:
            raise UserError(f"the {f'{split} split'.strip()} is empty: check the data")
        raise UserError(
            f"{pairs} {f'{split} pairs'.strip()} are too few for {processes} processes: use "
            f"{pairs} or fewer, or add data"
        )


def _buckets(sizes: NDArray[np.integer[Any]], tokens: int) -> list[tuple[Places, int]]:
    """Return groups of pairs whose sizes differ by at most 10 %, and their batch sizes."""
    order = np.argsort(sizes, kind="stable")[: int((sizes <= tokens).sum())].astype(np.int32)
    widths = sizes[order]
    buckets, start = [], 0
    while start < len(order):
        stop = int(np.searchsorted(widths, 1.1 * widths[start], side="right"))
        buckets.append((order[start:stop], tokens // int(widths[stop - 1])))
        start = stop
    return buckets
