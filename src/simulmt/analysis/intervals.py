"""How sure a BLEU is: bootstrap intervals, and the paired test of two systems.

Koehn (2004): sentences are drawn anew, with replacement, and the corpus is scored again. The same
sentences are drawn for every system, so each is resampled once, whatever it is compared with.
Draws, bounds and p values are those of `sacrebleu.significance`, which rounds to float32.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from sacrebleu.metrics.bleu import BLEU

from simulmt.scoring.conventions import CASED, Bleu

SEED = 12345
"""The default of sacreBLEU."""
_AT_ONCE = 100  # resamples
_ORDER = 4

Counts = NDArray[np.float64]


@dataclass(frozen=True)
class Resampled:
    """A system's BLEU, and the BLEU of each resample, in the order of the draws."""

    bleu: float
    samples: Counts

    @property
    def interval(self) -> tuple[float, float]:
        """The middle 95% of the resamples."""
        return middle(self.samples)


def middle(samples: Counts) -> tuple[float, float]:
    """Return the middle 95%: 1/40 is cut off at either end, as sacreBLEU does."""
    ordered = np.sort(samples)
    cut = len(ordered) // 40
    return float(ordered[cut]), float(ordered[-cut - 1])


def draw(sentences: int, samples: int, seed: int = SEED) -> NDArray[np.int64]:
    """Return the sentences of each resample, (samples, sentences)."""
    return np.random.default_rng(seed).choice(sentences, (samples, sentences), replace=True)


def resample(
    predictions: Sequence[str],
    references: Sequence[str],
    samples: int,
    kind: Bleu = CASED,
    seed: int = SEED,
) -> Resampled:
    """Return the BLEU of a corpus and of its resamples.

    Args:
        predictions: one sentence each, at least one in all.
        references: the same number of sentences.
        samples: how often to draw; 1,000 is usual.
        kind: tokeniser and case.
        seed: the seed of the draws.
    """
    counts = _counts(predictions, references, kind)
    drawn = draw(len(counts), samples, seed)
    scores = []
    for start in range(0, samples, _AT_ONCE):
        sums = counts[drawn[start : start + _AT_ONCE]].sum(axis=1)  # (draws, 2 + 2 * 4)
        scores += [_bleu(row) for row in sums]
    return Resampled(_bleu(counts.sum(axis=0)), np.array(scores))


def p_value(one: Resampled, other: Resampled) -> float:
    """Return how likely a difference of this size is if both systems are equally good; two-sided.

    The p value is not corrected for the number of tested pairs.

    Args:
        one: a system.
        other: another one, on the same sentences, drawn alike.
    """
    differences = np.abs(one.samples - other.samples)
    beyond = differences - differences.mean() > abs(one.bleu - other.bleu)
    return (int(beyond.sum()) + 1) / (len(differences) + 1)


def _counts(predictions: Sequence[str], references: Sequence[str], kind: Bleu) -> Counts:
    """Return lengths of prediction and reference, matched and all n-grams by sentence, (N, 10)."""
    # neither effective order nor force changes a count: they keep warnings away
    metric = BLEU(
        tokenize=kind.tokenize, lowercase=kind.lowercase, effective_order=True, force=True
    )
    rows = []
    for prediction, reference in zip(predictions, references, strict=True):
        score = metric.sentence_score(prediction, [reference])
        rows.append([score.sys_len, score.ref_len, *score.counts, *score.totals])
    return np.array(rows, dtype=np.float64)


def _bleu(counts: Counts) -> float:
    """Return the corpus BLEU of summed counts (10,)."""
    sys_len, ref_len, *grams = (int(count) for count in counts)
    score = BLEU.compute_bleu(grams[:_ORDER], grams[_ORDER:], sys_len, ref_len, smooth_method="exp")
    return float(score.score)
