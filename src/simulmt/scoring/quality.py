"""Translation quality by sacreBLEU, with its signatures."""

from __future__ import annotations

from collections.abc import Sequence

from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF


def bleu(
    predictions: Sequence[str],
    references: Sequence[str],
    tokenize: str = "13a",
    lowercase: bool = False,
) -> tuple[float, str]:
    """Corpus BLEU with one reference, and its signature.

    Args:
        predictions: Plain text, one sentence each.
        references: The same number of sentences.
        tokenize: A tokeniser of sacreBLEU; `none` splits at spaces.
        lowercase: Whether to lower-case both sides first.
    """
    # force: no word on references that end in a separate full stop
    metric = BLEU(tokenize=tokenize, lowercase=lowercase, force=True)
    return float(metric.corpus_score(predictions, [references]).score), str(metric.get_signature())


def chrf(predictions: Sequence[str], references: Sequence[str]) -> tuple[float, str]:
    """Corpus chrF with one reference, and its signature."""
    metric = CHRF()
    return float(metric.corpus_score(predictions, [references]).score), str(metric.get_signature())
