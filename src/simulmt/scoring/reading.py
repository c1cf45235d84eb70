"""Attention span (the distance between the heads) and initial delay."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from simulmt.decoding.instance import Instance


def attention_span(instance: Instance) -> float | None:
    r"""Return the mean distance between the furthest head and the nearest one, in source subwords.

    .. math::

        \frac{1}{|y|} \sum_{i=1}^{|y|} \Big[ \max_{l,h} t_i^{l,h} - \min_{l,h} t_i^{l,h} \Big]

    over the written subwords :math:`i`; head :math:`h` of layer :math:`l` stands at
    :math:`t_i^{l,h}`. Ma et al. (2020), "Monotonic Multihead Attention", eq. 18. A head at EOS, or
    one that has run off the end, counts as one at the last subword. None if no positions are
    known.
    """
    last = instance.subword_source_length
    spans = []
    for heads in instance.positions:
        if heads:
            stood = [min(position or last, last) for position in heads]
            spans.append(max(stood) - min(stood))
    return sum(spans) / len(spans) if spans else None


def initial_delays(delays: Iterable[Sequence[float]]) -> dict[int, int]:
    """Return the number of sentences by first delay (MILk, figure 7), smallest delay first.

    Args:
        delays: The source units read before each written unit, for each sentence. A sentence
            without a written unit is left out.
    """
    counts = Counter(int(sentence[0]) for sentence in delays if sentence)
    return dict(sorted(counts.items()))
