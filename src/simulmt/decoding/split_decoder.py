"""Decodes a whole split in batches, which the processes of a run share."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

import torch

from simulmt.data.batches import ordered_batches
from simulmt.data.corpus import Split
from simulmt.data.encoded import Batch, EncodedSplit
from simulmt.data.tokenizer import Tokenizer
from simulmt.decoding.beam import beam_search
from simulmt.decoding.by_policy import decode_by
from simulmt.decoding.greedy import greedy
from simulmt.decoding.hypothesis import Hypothesis
from simulmt.decoding.instance import Instance, word_delays
from simulmt.decoding.policy import Policy
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
        search: greedy, or beam search for models that read the whole sentence first; with a policy
            the search of the drafts.
        policy: commits words of drafts; None for the model's own decision.
    """

    split: Split
    encoded: EncodedSplit
    subwords: Tokenizer
    tokens: int
    search: Search
    policy: Policy | None = None

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
        batches = ordered_batches(self.encoded.lengths, tokens, rank=rank, world_size=world_size)
        was_training, decoded = model.training, list[Instance]()
        model.eval()
        for rows in watch(batches):
            decoded += self._decode(model, self.encoded.batch(rows), device)
        model.train(was_training)
        instances = [instance for part in gather(decoded) for instance in part]
        return sorted(instances, key=lambda instance: instance.index)

    def _decode(self, model: Model, batch: Batch, device: torch.device) -> Iterator[Instance]:
        """The instances of a batch."""
        source, mask = batch.source.to(device), batch.source_mask.to(device)
        if self.policy is not None:
            hypotheses = decode_by(self.policy, model, source, mask, self.search)
        elif self.search.beam == 1:
            hypotheses = greedy(model, source, mask)
        else:
            hypotheses = beam_search(model, source, mask, self.search)
        indices, ids = batch.index.tolist(), batch.source.tolist()
        lengths = (batch.source_mask.sum(-1) - 1).tolist()  # EOS does not count
        references = (batch.target_mask.sum(-1) - 1).tolist()
        for row, hypothesis in enumerate(hypotheses):
            source_ids = ids[row][: lengths[row]]
            yield write_down(
                indices[row], self.split, hypothesis, source_ids, references[row], self.subwords
            )


def write_down(
    index: int,
    split: Split,
    hypothesis: Hypothesis,
    source: Sequence[int],
    reference_length: int,
    subwords: Tokenizer,
) -> Instance:
    """The instance of a hypothesis.

    Args:
        index: place of the sentence in the split, from 0.
        split: source sentences and references.
        hypothesis: the translation.
        source: the source subwords, without EOS.
        reference_length: number of subwords of the reference, without EOS.
        subwords: the vocabulary of the model.
    """
    tokens = hypothesis.tokens
    ends, touched = subwords.word_ends(tokens), subwords.source_words(split.sources[index])
    return Instance(
        index=index,
        source=split.sources[index],
        reference=split.targets[index],
        prediction=subwords.decode(tokens),
        delays=tuple(word_delays(hypothesis.delays, ends, touched)),
        subword_delays=tuple(min(delay, len(source)) for delay in hypothesis.delays),
        subword_source_length=len(source),
        subword_reference_length=reference_length,
        positions=tuple(map(tuple, hypothesis.positions)),
        source_pieces=tuple(subwords.pieces(source)),
        target_pieces=tuple(subwords.pieces(tokens)),
        erased=hypothesis.erased,
    )
