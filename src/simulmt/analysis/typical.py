"""Which sentences of a corpus to show: typical ones, neither the best nor the worst."""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Bool
from numpy.typing import NDArray

from simulmt.decoding.instance import Instance
from simulmt.scoring.score import sentence_scores

_SHORTEST = 4  # source words of a sentence that shows a policy


def typical_places(instances: Sequence[Instance]) -> list[int]:
    """Return the places of the sentences, the most typical sentence first.

    A typical sentence is close to the corpus's medians of chrF, DAL, source words and written
    words. Each distance is divided by the mean distance from that median. If at least half of the
    sentences show the policy at work, these come first. Equally typical sentences keep their order.
    """
    lengths = [(i.source_length, i.prediction_length) for i in instances]
    traits = np.hstack([sentence_scores(instances), np.array(lengths, dtype=float)])  # (N, 4)
    distances = np.abs(traits - np.median(traits, axis=0))
    scales = distances.mean(axis=0)
    distances /= np.where(scales > 0, scales, 1)
    shown = _show_policy(instances)
    later = ~shown if 2 * shown.sum() >= len(shown) else np.zeros_like(shown)
    return [int(place) for place in np.lexsort((distances.sum(axis=1), later))]


def _show_policy(instances: Sequence[Instance]) -> Bool[NDArray[np.bool_], "N"]:
    """Return for each sentence whether it is long enough and has a read between two writes."""
    return np.array([i.source_length >= _SHORTEST and len({*i.delays}) > 1 for i in instances])
