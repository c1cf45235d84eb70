"""Quality and latency of decoded sentences, each figure with the signature of how it was counted.

Statistics are taken per sentence first, in the order of the sentences' indices, and averaged
after, in float64: the result does not depend on batches, on their order or on how many processes
decoded.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Sequence
from operator import attrgetter
from pathlib import Path
from typing import Any, NamedTuple

import torch
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF
from torch import Tensor

from simulmt import __version__, latency
from simulmt.data.corpus import oracle_delays
from simulmt.decoding.instance import Instance
from simulmt.errors import UserError

# name -> what stands for the target's length in the formula: hypothesis, reference, the longer
# of the two, or nothing. AL_ref is SimulEval's AL, AL the papers'.
METRICS = {"AP": "hyp", "AL": "hyp", "AL_ref": "ref", "LAAL": "max", "DAL": "hyp", "CW": None}

_SUBWORDS = attrgetter("subword_delays", "subword_source_length", "subword_reference_length")
_ROWS_AT_ONCE = 4096


class Delays(NamedTuple):
    """What latency is counted from, for one sentence, in words or in subwords."""

    delays: Sequence[int]
    source_length: int
    reference_length: int


def score(
    instances: Iterable[Instance], oracle: Sequence[Sequence[int]] | None = None
) -> dict[str, Any]:
    """Score decoded sentences.

    EOS is no unit, delays are clipped to the source's length, a corpus's latency is the mean over
    its sentences. An empty prediction has no delay: it is left out of the means and counted in
    `empty`. A latency without any sentence to count it on is None.

    Args:
        instances: In any order; one that is there twice (a distributed sampler) counts once.
        oracle: For each sentence *index* of the corpus, the source words that each word of the
            reference needs; no word is written before the one before it.

    Returns:
        `{"quality": {BLEU, chrF, signature, chrF_signature}, "latency": {"word": {AP, AL,
        AL_ref, LAAL, DAL, CW, signature: {name: signature}}, "subword": {...}}, "sentences",
        "empty"}` and, with an oracle, `"oracle": {"word": {...}}`.

    Raises:
        UserError: If there is no sentence.
        ValueError: If two different instances share an index, or one has no oracle.
    """
    ordered = _ordered(instances)
    if not ordered:
        raise UserError("there is no sentence to score: the decoded set is empty")
    words = [Delays(i.delays, i.source_length, i.reference_length) for i in ordered]
    subwords = [Delays(*_SUBWORDS(instance)) for instance in ordered]
    scores: dict[str, Any] = {
        "quality": _quality(ordered),
        "latency": {"word": _latency(words, "u:word"), "subword": _latency(subwords, "u:subword")},
    }
    if oracle is not None:
        best = [_oracle_delays(instance, oracle) for instance in ordered]
        scores["oracle"] = {"word": _latency(best, "u:word", "d:oracle")}
    scores["sentences"] = len(ordered)
    scores["empty"] = sum(not instance.delays for instance in ordered)
    return scores


def write_scores(path: Path, scores: dict[str, Any]) -> None:
    """Write scores as indented JSON, the same bytes for the same scores."""
    text = json.dumps(scores, indent=2, ensure_ascii=False, allow_nan=False)
    path.write_text(text + "\n", encoding="utf-8", newline="\n")


def bleu(predictions: Sequence[str], references: Sequence[str]) -> float:
    """Corpus BLEU of sacreBLEU: 13a tokens, cased, one reference."""
    return float(BLEU(force=True).corpus_score(predictions, [references]).score)


def sentence_latencies(rows: Sequence[Delays]) -> dict[str, list[float]]:
    """Every metric of every sentence, in float64; delays are clipped to the source's length.

    Args:
        rows: Sentences with at least one written unit each.

    Returns:
        For each name in `METRICS` one value per sentence.
    """
    values: dict[str, list[float]] = {name: [] for name in METRICS}
    for start in range(0, len(rows), _ROWS_AT_ONCE):
        delays, source, target, reference = _tensors(rows[start : start + _ROWS_AT_ONCE])
        lengths = (source, target)
        batch = {
            "AP": latency.average_proportion(delays, *lengths),
            "AL": latency.average_lagging(delays, *lengths),
            "AL_ref": latency.average_lagging(delays, *lengths, reference),
            "LAAL": latency.length_adaptive_average_lagging(delays, *lengths, reference),
            "DAL": latency.differentiable_average_lagging(delays, *lengths),
            "CW": latency.consecutive_wait(delays, *lengths),
        }
        for name, row in batch.items():
            values[name] += row.tolist()
    return values


def _ordered(instances: Iterable[Instance]) -> list[Instance]:
    """By index, each once."""
    by_index: dict[int, Instance] = {}
    for instance in instances:
        if by_index.setdefault(instance.index, instance) != instance:
            raise ValueError(f"sentence {instance.index} is there twice, decoded differently")
    return [by_index[index] for index in sorted(by_index)]


def _quality(ordered: Sequence[Instance]) -> dict[str, Any]:
    predictions = [instance.prediction for instance in ordered]
    references = [[instance.reference for instance in ordered]]
    # force: no word on references that end in a separate full stop
    bleu_metric, chrf_metric = BLEU(force=True), CHRF()
    return {
        "BLEU": float(bleu_metric.corpus_score(predictions, references).score),
        "chrF": float(chrf_metric.corpus_score(predictions, references).score),
        "signature": str(bleu_metric.get_signature()),
        "chrF_signature": str(chrf_metric.get_signature()),
    }


def _latency(rows: Iterable[Delays], *fields: str) -> dict[str, Any]:
    """Means over the sentences that have delays, and the signatures."""
    values = sentence_latencies([row for row in rows if row.delays])
    means: dict[str, Any] = {
        name: math.fsum(column) / len(column) if column else None for name, column in values.items()
    }
    means["signature"] = {name: _signature(name, fields) for name in METRICS}
    return means


def _signature(name: str, fields: Sequence[str]) -> str:
    """As sacreBLEU signs a score: `AL|g:ref|u:word|eos:no|v:0.1.0`."""
    kind = METRICS[name]
    length = [] if kind is None else [f"g:{kind}"]
    return "|".join([name.removesuffix("_ref"), *length, *fields, "eos:no", f"v:{__version__}"])


def _oracle_delays(instance: Instance, oracle: Sequence[Sequence[int]]) -> Delays:
    if not 0 <= instance.index < len(oracle):
        raise ValueError(f"sentence {instance.index} has no oracle: there are {len(oracle)}")
    delays = oracle_delays(oracle[instance.index])
    return Delays(delays, instance.source_length, len(delays))


def _tensors(rows: Sequence[Delays]) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Delays (B, T), padded with 0, and lengths (B,) of source, hypothesis and reference."""
    source = torch.tensor([row.source_length for row in rows])
    target = torch.tensor([len(row.delays) for row in rows])
    reference = torch.tensor([row.reference_length for row in rows])
    delays = torch.zeros(len(rows), int(target.max()), dtype=torch.float64)
    for row, line in zip(delays, rows, strict=True):
        row[: len(line.delays)] = torch.tensor(line.delays, dtype=torch.float64)
    return delays.minimum(source.unsqueeze(1)), source, target, reference
