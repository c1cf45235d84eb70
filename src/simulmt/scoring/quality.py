"""Translation quality by sacreBLEU, with its signatures."""

from __future__ import annotations

from collections.abc import Sequence

from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF

from simulmt.scoring.scores import Score


def bleu(
    predictions: Sequence[str],
    references: Sequence[str],
    tokenize: str = "13a",
    lowercase: bool = False,
) -> Score:
    """Return corpus BLEU with one reference.

    Args:
        predictions: Plain text, one sentence each.
        references: The same number of sentences.
        tokenize: A tokeniser of sacreBLEU; `none` splits at spaces.
        lowercase: Whether to lower-case both sides first.
    """
    # force: no warning about references that end in a separate full stop
    return _score(BLEU(tokenize=tokenize, lowercase=lowercase, force=True), predictions, references)


def chrf(predictions: Sequence[str], references: Sequence[str]) -> Score:
    """Return corpus chrF with one reference."""
    return _score(CHRF(), predictions, references)


def _score(metric: BLEU | CHRF, predictions: Sequence[str], references: Sequence[str]) -> Score:
    result = metric.corpus_score(predictions, [references])
    name = "BLEU" if isinstance(metric, BLEU) else "chrF"
    return Score(float(result.score), f"{name}|{metric.get_signature()}")
