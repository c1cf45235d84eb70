"""Decodes a whole split in batches, which the processes of a run share."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import torch

from simulmt.data.batches import ordered_batches
from simulmt.data.corpus import Split
from simulmt.data.encoded import EncodedSplit
from simulmt.data.subwords import Subwords
from simulmt.decoding.corpus import decode_split
from simulmt.decoding.instance import Instance
from simulmt.decoding.search import Search
from simulmt.models.model import Model
from simulmt.processes import gather, rank_and_world_size


@dataclass(frozen=True)
class SplitDecoder:
    """Decodes one split; every process returns all instances.

    Args:
        split: the sentences.
        encoded: the same sentences as subwords.
        subwords: the model's vocabulary.
        tokens: largest number of tokens in a batch, all hypotheses together.
        search: greedy or beam search.
    """

    split: Split
    encoded: EncodedSplit
    subwords: Subwords
    tokens: int
    search: Search

    def __call__(
        self,
        model: Model,
        device: torch.device,
        watch: Callable[[list[list[int]]], Iterable[list[int]]] = iter,
    ) -> list[Instance]:
        """The instances in the order of the split.

        Args:
            model: the translation model, on `device`.
            device: where the model is.
            watch: wraps the loop over batches, to show its progress.
        """
        tokens = max(1, self.tokens // self.search.beam)
        rank, world_size = rank_and_world_size()
        rows = ordered_batches(self.encoded.lengths, tokens, rank=rank, world_size=world_size)
        batches = (self.encoded.batch(batch) for batch in watch(rows))
        was_training = model.training
        model.eval()
        decoded = [*decode_split(model, self.subwords, self.split, batches, device, self.search)]
        model.train(was_training)
        instances = [instance for part in gather(decoded) for instance in part]
        return sorted(instances, key=lambda instance: instance.index)
