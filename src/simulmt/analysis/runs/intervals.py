"""Bootstrap intervals of quality, and p values of differences between systems.

Koehn (2004): draw sentences with replacement, and score the drawn corpus. All systems share the
draws, so that one resampling of a system serves all of its comparisons. Draws and bounds are those
of `sacrebleu.significance`, which rounds to float32.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from sacrebleu.metrics.bleu import BLEU

from simulmt.decoding.instance import Instance, texts_of
from simulmt.scoring.conventions import Bleu, Convention
from simulmt.scoring.score import sentence_dals

SEED = 12345
"""The default of sacreBLEU."""
_ORDER = 4  # of the longest n-grams that BLEU counts

SentenceCounts = NDArray[np.float64]


@dataclass(frozen=True)
class Resampled:
    """Quality and DAL of the test set, then of each resample in the order of the draws: (1 + R,).

    Quality is BLEU, or the mean of another program's scores.
    """

    quality: SentenceCounts
    dal: SentenceCounts

    @property
    def interval(self) -> tuple[float, float]:
        """The middle 95% of the resampled quality."""
        return middle(self.quality[1:])


def middle(samples: SentenceCounts) -> tuple[float, float]:
    """Return the bounds of the middle 95%: sacreBLEU cuts off 1/40 at each end, too."""
    ordered = np.sort(samples)
    cut = len(ordered) // 40
    return float(ordered[cut]), float(ordered[-cut - 1])


def p_value(differences: SentenceCounts) -> float:
    """Return the two-sided p value: twice the smaller share of differences on one side of 0.

    One is added to the count and to the resamples (Davison and Hinkley 1997, section 4.2).
    """
    beyond = min((differences <= 0).sum(), (differences >= 0).sum())
    return min(1.0, 2 * (int(beyond) + 1) / (len(differences) + 1))


def holm(p_values: Sequence[float]) -> list[float]:
    """Return the p values corrected for their number, in the same order (Holm 1979)."""
    order = np.argsort(p_values)
    left = np.arange(len(order), 0, -1)  # the hypotheses that no smaller p value has rejected
    corrected = np.empty(len(order))
    corrected[order] = np.maximum.accumulate(np.minimum(left * np.array(p_values)[order], 1))
    return [float(p) for p in corrected]


@lru_cache(maxsize=1)
def draw_sentences(sentences: int, samples: int) -> SentenceCounts:
    """Return how often each resample draws each sentence, (samples, sentences)."""
    random = np.random.default_rng(SEED)
    drawn = (random.choice(sentences, sentences) for _ in range(samples))
    return np.array([np.bincount(row, minlength=sentences) for row in drawn], dtype=np.float64)


def sentence_counts(log: Sequence[Instance], convention: Convention) -> SentenceCounts:
    """Return what BLEU and DAL sum up of each sentence, (N, 12).

    These are the lengths of prediction and reference, the matched and all n-grams, DAL in words (a
    log has no subwords), and 1 if a word was written.
    """
    metric = _bleu(convention.bleu.of(log[0].writing))
    texts = map(texts_of, log)
    scores = [metric.sentence_score(said, [meant]) for _, meant, said in texts]
    counts = [[s.sys_len, s.ref_len, *s.counts, *s.totals] for s in scores]
    written = [len(i.delays) > 0 for i in log]
    return np.column_stack([counts, sentence_dals(log, convention.clipped), written])


@lru_cache
def _bleu(kind: Bleu) -> BLEU:
    """Return a metric for all runs; it remembers the tokens of the references."""
    return BLEU(tokenize=kind.tokenize, lowercase=kind.lowercase, effective_order=True)


def resample(counts: SentenceCounts, samples: int) -> Resampled:
    """Return BLEU and DAL of a corpus and of its resamples.

    Args:
        counts: The counts of each sentence, at least one.
        samples: The number of resamples; 1,000 is usual.
    """
    sums = np.vstack([counts.sum(axis=0), draw_sentences(len(counts), samples) @ counts])
    bleus = [
        BLEU.compute_bleu(grams[:_ORDER], grams[_ORDER:], said, meant, smooth_method="exp").score
        for said, meant, *grams in sums[:, :-2].astype(int).tolist()
    ]
    return Resampled(np.array(bleus), sums[:, -2] / np.maximum(sums[:, -1], 1))


def resample_mean(segments: Sequence[float], samples: int) -> SentenceCounts:
    """Return the mean of a corpus and of the same resamples, (1 + samples,)."""
    values = np.array(segments)
    return np.append(values.mean(), draw_sentences(len(values), samples) @ values / len(values))


def mean_of_seeds(seeds: Mapping[str, Resampled]) -> Resampled:
    """Return the mean of runs that differ in the seed alone; each resample draws seeds, too.

    Of n seeds n - 1 are drawn with replacement, so that the variance over the draws is that of a
    mean of n (Rao and Wu 1988). The draws depend on the names: two decodings of the same models
    share them.

    Args:
        seeds: The resampled figures of each trained model, by its name.
    """
    names = sorted(seeds)
    random = np.random.default_rng([SEED, *"\n".join(names).encode()])
    samples = len(seeds[names[0]].quality) - 1
    drawn = random.integers(len(names), size=(max(len(names) - 1, 1), samples))

    def mean(figure: str) -> SentenceCounts:
        figures = np.stack([getattr(seeds[name], figure) for name in names])  # (N, 1 + R)
        resampled = np.take_along_axis(figures[:, 1:], drawn, axis=0)
        return np.append(figures[:, 0].mean(), resampled.mean(axis=0))

    return Resampled(mean("quality"), mean("dal"))
