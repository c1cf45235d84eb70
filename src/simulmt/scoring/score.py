"""Quality and latency of decoded sentences, each figure with the signature of how it was counted.

Statistics are taken per sentence first, in the order of the sentences' indices, and averaged
after, in float64: the result does not depend on batches, on their order or on how many processes
decoded.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from simulmt import __version__
from simulmt.data.corpus import oracle_delays
from simulmt.decoding.instance import Instance
from simulmt.errors import UserError
from simulmt.scoring.conventions import CASED, CONVENTIONS, METRICS, Bleu, Convention, Metric
from simulmt.scoring.quality import bleu, chrf
from simulmt.scoring.reading import attention_span, initial_delays

_ROWS_AT_ONCE = 4096
_OF_ELAPSED = CONVENTIONS["omnisteval"]  # the scorer in use that takes elapsed times seriously


class Delays(NamedTuple):
    """What latency is counted from, for one sentence, in words or in subwords."""

    delays: Sequence[float]
    source_length: int
    reference_length: int


def score(
    instances: Iterable[Instance], oracle: Sequence[Sequence[int]] | None = None
) -> dict[str, Any]:
    """Score decoded sentences.

    EOS is no unit, delays are clipped to the source's length (where a convention does not say
    otherwise), a corpus's latency is the mean over its sentences. An empty prediction has no
    delay: it is left out of the means and counted in `empty`. A latency without any sentence to
    count it on is None.

    Args:
        instances: In any order; one that is there twice (a distributed sampler) counts once.
        oracle: For each sentence *index* of the corpus, the source words that each word of the
            reference needs; no word is written before the one before it.

    Returns:
        `{"quality": {BLEU, chrF, signature, chrF_signature}, "latency": {"word": {AP, AL,
        AL_ref, LAAL, DAL, CW, signature: {name: signature}}, "subword": {...}}, "conventions":
        {name: {unit, its figures, signature: {name: signature}}}, "initial_delays": {"word":
        {delay: sentences}, "subword": {...}}, "sentences", "empty"}`. With an oracle, also
        `"oracle": {"word": {...}}`; with heads that stand somewhere, `"attention_span"`; with
        measured times, `"computation_aware"`, shaped like a convention.

    Raises:
        UserError: If there is no sentence.
        ValueError: If two different instances share an index, or one has no oracle.
    """
    ordered = _ordered(instances)
    if not ordered:
        raise UserError("there is no sentence to score: the decoded set is empty")
    qualities = _qualities(ordered)
    (bleu_score, signature), (chrf_score, chrf_signature) = qualities[CASED], qualities["chrF"]
    scores: dict[str, Any] = {
        "quality": {
            "BLEU": bleu_score,
            "chrF": chrf_score,
            "signature": signature,
            "chrF_signature": chrf_signature,
        },
        "latency": {
            unit: _latency(_rows(ordered, unit), METRICS, f"u:{unit}")
            for unit in ("word", "subword")
        },
    }
    if oracle is not None:
        best = [_oracle_delays(instance, oracle) for instance in ordered]
        scores["oracle"] = {"word": _latency(best, METRICS, "u:word", "d:oracle")}
    scores["conventions"] = {
        name: _by_convention(ordered, convention, qualities)
        for name, convention in CONVENTIONS.items()
    }
    scores |= _computation_aware(ordered) | _reading(ordered)
    scores["sentences"] = len(ordered)
    scores["empty"] = sum(not instance.delays for instance in ordered)
    return scores


def write_scores(path: Path, scores: dict[str, Any]) -> None:
    """Write scores as indented JSON, the same bytes for the same scores."""
    text = json.dumps(scores, indent=2, ensure_ascii=False, allow_nan=False)
    unfinished = path.with_suffix(".tmp")  # a run that has the file is taken for finished
    unfinished.write_text(text + "\n", encoding="utf-8", newline="\n")
    unfinished.replace(path)


def sentence_latencies(
    rows: Sequence[Delays], metrics: Mapping[str, Metric]
) -> dict[str, list[float]]:
    """Every metric of every sentence, in float64.

    Args:
        rows: Sentences with at least one written unit each.
        metrics: What to count, by the name it gets.

    Returns:
        For each name one value per sentence, NaN where it is not defined.
    """
    values: dict[str, list[float]] = {name: [] for name in metrics}
    for start in range(0, len(rows), _ROWS_AT_ONCE):
        batch = _tensors(rows[start : start + _ROWS_AT_ONCE])
        for name, metric in metrics.items():
            values[name] += metric.values(*batch)
    return values


def _ordered(instances: Iterable[Instance]) -> list[Instance]:
    """By index, each once."""
    by_index: dict[int, Instance] = {}
    for instance in instances:
        if by_index.setdefault(instance.index, instance) != instance:
            raise ValueError(f"sentence {instance.index} is there twice, decoded differently")
    return [by_index[index] for index in sorted(by_index)]


def _qualities(ordered: Sequence[Instance]) -> dict[Bleu | str, tuple[float, str]]:
    """Every kind of BLEU that a convention asks for, and "chrF"; each with its signature."""
    texts = [i.prediction for i in ordered], [i.reference for i in ordered]
    kinds = {convention.bleu for convention in CONVENTIONS.values()}
    return {kind: bleu(*texts, *kind) for kind in kinds} | {"chrF": chrf(*texts)}


def _by_convention(
    ordered: Sequence[Instance],
    convention: Convention,
    qualities: Mapping[Bleu | str, tuple[float, str]],
) -> dict[str, Any]:
    """The figures of a convention, and their signatures."""
    counted = {"BLEU": qualities[convention.bleu]}
    if convention.chrf:
        counted["chrF"] = qualities["chrF"]
    rows = _rows(ordered, convention.unit, convention.clipped)
    metrics = {metric.name: metric for metric in convention.metrics}
    latencies = _latency(rows, metrics, *convention.fields)
    signatures = {name: f"{name}|{signature}" for name, (_, signature) in counted.items()}
    return {
        "unit": convention.unit,
        **{name: value for name, (value, _) in counted.items()},
        **latencies,
        "signature": signatures | latencies["signature"],
    }


def _computation_aware(ordered: Sequence[Instance]) -> dict[str, Any]:
    """Latency with the time that computing took, over the sentences that it was measured on."""
    measured = [instance for instance in ordered if instance.elapsed]
    if not measured:
        return {}
    rows = [Delays(i.elapsed, i.source_length, i.reference_length) for i in measured]
    metrics = {metric.name: metric for metric in _OF_ELAPSED.metrics}
    unit, *rest = _OF_ELAPSED.fields
    figures = _latency(rows, metrics, unit, "d:ca", *rest)
    return {"computation_aware": {"unit": _OF_ELAPSED.unit, **figures, "sentences": len(measured)}}


def _reading(ordered: Sequence[Instance]) -> dict[str, Any]:
    """How far the heads are apart, and the first delays."""
    spans = [span for instance in ordered if (span := attention_span(instance)) is not None]
    found: dict[str, Any] = {}
    if spans:
        found["attention_span"] = {
            "subword": math.fsum(spans) / len(spans),
            "signature": f"span|h:all|u:subword|eos:no|v:{__version__}",
        }
    found["initial_delays"] = {
        unit: initial_delays(row.delays for row in _rows(ordered, unit))
        for unit in ("word", "subword")
    }
    return found


def _latency(rows: Iterable[Delays], metrics: Mapping[str, Metric], *fields: str) -> dict[str, Any]:
    """Means over the sentences that have delays, and the signatures."""
    values = sentence_latencies([row for row in rows if row.delays], metrics)
    means: dict[str, Any] = {}
    for name, column in values.items():
        defined = [value for value in column if not math.isnan(value)]
        means[name] = math.fsum(defined) / len(defined) if defined else None
    means["signature"] = {name: metric.signature(*fields) for name, metric in metrics.items()}
    return means


def _rows(ordered: Sequence[Instance], unit: str, clipped: bool = True) -> list[Delays]:
    """The delays of all sentences in a unit."""
    if unit == "subword":
        rows = [
            Delays(i.subword_delays, i.subword_source_length, i.subword_reference_length)
            for i in ordered
        ]
    else:
        rows = [Delays(i.delays, i.source_length, i.reference_length) for i in ordered]
    return [_clip(row) for row in rows] if clipped else rows


def _clip(row: Delays) -> Delays:
    return row._replace(delays=tuple(min(delay, row.source_length) for delay in row.delays))


def _oracle_delays(instance: Instance, oracle: Sequence[Sequence[int]]) -> Delays:
    if not 0 <= instance.index < len(oracle):
        raise ValueError(f"sentence {instance.index} has no oracle: there are {len(oracle)}")
    delays = oracle_delays(oracle[instance.index])
    return _clip(Delays(delays, instance.source_length, len(delays)))


def _tensors(rows: Sequence[Delays]) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Delays (B, T), padded with 0, and lengths (B,) of source, hypothesis and reference."""
    source = torch.tensor([row.source_length for row in rows])
    target = torch.tensor([len(row.delays) for row in rows])
    reference = torch.tensor([row.reference_length for row in rows])
    delays = torch.zeros(len(rows), int(target.max()), dtype=torch.float64)
    for row, line in zip(delays, rows, strict=True):
        row[: len(line.delays)] = torch.tensor(line.delays, dtype=torch.float64)
    return delays, source, target, reference
