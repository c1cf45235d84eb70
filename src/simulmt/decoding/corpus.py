"""Decode the batches of a split into instances."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import torch

from simulmt.data.corpus import Split
from simulmt.data.encoded import Batch
from simulmt.data.subwords import Subwords
from simulmt.decoding.beam import beam_search
from simulmt.decoding.greedy import greedy
from simulmt.decoding.hypothesis import Hypothesis
from simulmt.decoding.instance import Instance, word_delays
from simulmt.decoding.policies import OWN
from simulmt.decoding.policy import Policy
from simulmt.decoding.search import Search
from simulmt.models.model import Model


def decode_split(
    model: Model,
    subwords: Subwords,
    split: Split,
    batches: Iterable[Batch],
    device: torch.device,
    search: Search,
    policy: Policy = OWN,
) -> Iterator[Instance]:
    """The instances of a split, batch by batch.

    Args:
        model: in evaluation mode, on `device`.
        subwords: the model's vocabulary.
        split: the sentences that the batches' `index` points into.
        batches: the batches to translate.
        device: where the model is.
        search: greedy, or beam search for models that read the whole sentence first.
        policy: decides between reading and writing in greedy decoding.
    """
    for batch in batches:
        source, mask = batch.source.to(device), batch.source_mask.to(device)
        if search.beam == 1:
            hypotheses = greedy(model, source, mask, policy)
        else:
            hypotheses = beam_search(model, source, mask, search)
        references = (batch.target_mask.sum(-1) - 1).tolist()  # EOS does not count
        rows = zip(batch.index.tolist(), hypotheses, _unpadded(batch), references, strict=True)
        for index, hypothesis, ids, reference_length in rows:
            yield write_down(index, split, hypothesis, ids, reference_length, subwords)


def write_down(
    index: int,
    split: Split,
    hypothesis: Hypothesis,
    source: Sequence[int],
    reference_length: int,
    subwords: Subwords,
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
    return Instance(
        index=index,
        source=split.sources[index],
        reference=split.targets[index],
        prediction=subwords.decode(tokens),
        delays=tuple(
            word_delays(
                hypothesis.delays, subwords.word_ends(tokens), subwords.words_touched(source)
            )
        ),
        subword_delays=tuple(min(delay, len(source)) for delay in hypothesis.delays),
        subword_source_length=len(source),
        subword_reference_length=reference_length,
        positions=tuple(map(tuple, hypothesis.positions)),
        source_pieces=tuple(subwords.pieces(source)),
        target_pieces=tuple(subwords.pieces(tokens)),
    )


def _unpadded(batch: Batch) -> list[list[int]]:
    """Source ids of each row, without EOS and padding."""
    lengths = batch.source_mask.sum(-1) - 1
    pairs = zip(batch.source.tolist(), lengths.tolist(), strict=True)
    return [ids[:length] for ids, length in pairs]
