"""Decode a whole split and write down what happened to each sentence."""

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
    """Translate the batches; instances come batch by batch.

    Args:
        model: in evaluation mode, on `device`.
        subwords: the model's vocabulary.
        split: the sentences that the batches' `index` points into.
        batches: what to translate.
        device: where the model is.
        search: a beam of 1 is greedy, which is the one way for a model that streams.
        policy: decides between reading and writing in greedy decoding.
    """
    for batch in batches:
        source, mask = batch.source.to(device), batch.source_mask.to(device)
        if search.beam == 1:
            hypotheses = greedy(model, source, mask, policy)
        else:
            hypotheses = beam_search(model, source, mask, search)
        rows = zip(batch.index.tolist(), hypotheses, _unpadded(batch), strict=True)
        for index, hypothesis, ids in rows:
            yield write_down(index, split, hypothesis, ids, subwords)


def write_down(
    index: int, split: Split, hypothesis: Hypothesis, source: Sequence[int], subwords: Subwords
) -> Instance:
    """The instance of a hypothesis; `source` are the subwords that were read, without EOS."""
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
        subword_reference_length=len(subwords.encode(split.targets[index])),
        positions=tuple(tuple(stood) for stood in hypothesis.positions),
        source_pieces=tuple(subwords.pieces(source)),
        target_pieces=tuple(subwords.pieces(tokens)),
    )


def _unpadded(batch: Batch) -> list[list[int]]:
    """Source ids of each row, without EOS and padding."""
    lengths = batch.source_mask.sum(-1) - 1
    pairs = zip(batch.source.tolist(), lengths.tolist(), strict=True)
    return [ids[:length] for ids, length in pairs]
