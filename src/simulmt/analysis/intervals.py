"""Bootstrap intervals of BLEU, and the paired test of two systems.

Koehn (2004): draw sentences with replacement, and score the drawn corpus. All systems share the
draws, so that one resampling of a system serves all of its comparisons.
Draws, bounds and p values are those of `sacrebleu.significance`, which rounds to float32.
"""

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
    """The BLEU of a system, and the BLEU of each resample in the order of the draws."""

    bleu: float
    samples: Counts

    @property
    def interval(self) -> tuple[float, float]:
        """The middle 95% of the resamples."""
        return middle(self.samples)


def middle(samples: Counts) -> tuple[float, float]:
    """Return the bounds of the middle 95%: sacreBLEU cuts off 1/40 at either end, too."""
    ordered = np.sort(samples)
    cut = len(ordered) // 40
    return float(ordered[cut]), float(ordered[-cut - 1])


def draw(sentences: int, samples: int) -> NDArray[np.int64]:
    """Return the sentences of each resample, (samples, sentences)."""
    return np.random.default_rng(SEED).choice(sentences, (samples, sentences), replace=True)


def resample(
    predictions: Sequence[str], references: Sequence[str], samples: int, kind: Bleu = CASED
) -> Resampled:
    """Return the BLEU of a corpus and of its resamples.

    Args:
        predictions: The sentences of the system, at least one.
        references: The reference of each sentence.
        samples: The number of resamples; 1,000 is usual.
        kind: The tokeniser and the treatment of case.
    """
    counts = _counts(predictions, references, kind)
    drawn = draw(len(counts), samples)
    scores = []
    for start in range(0, samples, _AT_ONCE):
        sums = counts[drawn[start : start + _AT_ONCE]].sum(axis=1)  # (draws, 2 + 2 * 4)
        scores += [_bleu(row) for row in sums]
    return Resampled(_bleu(counts.sum(axis=0)), np.array(scores))


def p_value(first: Resampled, second: Resampled) -> float:
    """Return the probability of a difference of this size between equal systems; two-sided.

    The p value is not corrected for the number of tested pairs.

    Args:
        first: A system.
        second: A system with the same sentences and the same draws.
    """
    differences = np.abs(first.samples - second.samples)
    beyond = differences - differences.mean() > abs(first.bleu - second.bleu)
    return (int(beyond.sum()) + 1) / (len(differences) + 1)


def _counts(predictions: Sequence[str], references: Sequence[str], kind: Bleu) -> Counts:
    """Return the lengths of prediction and reference, and matched and all n-grams, (N, 10)."""
    # effective order and force change no count, and avoid warnings
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
