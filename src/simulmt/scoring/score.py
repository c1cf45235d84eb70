"""Quality and latency of decoded sentences, each score with its signature.

Statistics are counted per sentence, in the order of the indices, and then averaged in float64: the
result does not depend on the batches, their order or the number of processes.
"""

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import zip_longest
from typing import NamedTuple

import torch
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF
from torch import Tensor

from simulmt import __version__
from simulmt.data.corpus import oracle_delays
from simulmt.decoding.instance import Instance, texts_of
from simulmt.errors import UserError
from simulmt.latency import METRICS, Metric
from simulmt.scoring.conventions import CASED, CONVENTIONS, UNITS, Bleu, Convention
from simulmt.scoring.degeneracy import degeneracy
from simulmt.scoring.scores import ComputationAware, Computing, Decoding, Figures, Score, Scores

_ROWS_AT_ONCE = 4096


class UnitDelays(NamedTuple):
    """The delays and lengths of one sentence, in words, subwords or milliseconds."""

    delays: Sequence[float]
    source_length: float
    reference_length: int
    end: float = math.inf  # of a stream, from the start of the sentence

    def clipped(self) -> "UnitDelays":
        """Return the same with delays of at most the source's length."""
        return self._replace(delays=tuple(min(delay, self.source_length) for delay in self.delays))


def score(
    instances: Iterable[Instance],
    oracle: Sequence[Sequence[int]] | None = None,
    decoding: Decoding | None = None,
    computing: Computing | None = None,
) -> Scores:
    """Return the scores of decoded sentences, all of which are written in the same way.

    EOS does not count as a unit. Delays are clipped to the source's length unless a convention says
    `clip:no`. A corpus's latency is the mean over its sentences; an empty prediction has no delay,
    so the means leave it out and `empty` counts it. A latency that no sentence defines is None.

    Args:
        instances: In any order; a repeated one (a distributed sampler) counts once.
        oracle: For each sentence *index* of the corpus, the source words that each word of the
            reference needs; no word is written before the one before it.
        decoding: How the sentences were decoded, if known.
        computing: The computing times, if measured.

    Raises:
        UserError: If there is no sentence.
        ValueError: If two different instances share an index.
        IndexError: If an instance has no oracle.
    """
    ordered = _ordered(instances)
    if not ordered:
        raise UserError("there is no sentence to score: the decoded set is empty")
    writing = ordered[0].writing
    _, references, predictions = map(list, zip(*map(texts_of, ordered), strict=True))
    kinds = {convention.bleu for convention in CONVENTIONS.values()}
    letters = chrf(predictions, references)
    bleus = {kind: bleu(predictions, references, kind.of(writing)) for kind in kinds}
    figures = dict[str, dict[str, Figures]]()
    for name, convention in CONVENTIONS.items():
        quality = {"BLEU": bleus[convention.bleu], "chrF": letters}
        counted = {u: _by_convention(ordered, convention, u, quality) for u in convention.units}
        figures[name] = counted
    return Scores(
        figures=figures,
        initial_delays={unit: _initial_delays(_rows(ordered, unit)) for unit in UNITS},
        sentences=len(ordered),
        empty=sum(not instance.delays for instance in ordered),
        oracle={"word": oracle_latencies(ordered, oracle)} if oracle else {},
        computation_aware=_computation_aware(ordered),
        computing_ms=computing,
        attention_span=_attention_span(ordered),
        erasure=_erasure(ordered),
        decoding=decoding,
        writing=writing,
    )


def _ordered(instances: Iterable[Instance]) -> list[Instance]:
    """Return the instances by index, each once."""
    by_index: dict[int, Instance] = {}
    for instance in instances:
        if by_index.setdefault(instance.index, instance) != instance:
            raise ValueError(f"sentence {instance.index} is there twice, decoded differently")
    return [by_index[index] for index in sorted(by_index)]


def bleu(predictions: Sequence[str], references: Sequence[str], kind: Bleu = CASED) -> Score:
    """Return sacreBLEU's corpus BLEU with one reference, with sacreBLEU's signature.

    Args:
        predictions: Plain text, one sentence each.
        references: The same number of sentences.
        kind: The tokeniser, and True to lower-case both sides first.
    """
    # force: no warning about references that end in a separate full stop
    metric = BLEU(tokenize=kind.tokenize, lowercase=kind.lowercase, force=True)
    result = metric.corpus_score(predictions, [references])
    return Score(float(result.score), f"BLEU|{metric.get_signature()}")


def chrf(predictions: Sequence[str], references: Sequence[str]) -> Score:
    """Return sacreBLEU's corpus chrF with one reference, with sacreBLEU's signature."""
    metric = CHRF()
    result = metric.corpus_score(predictions, [references])
    return Score(float(result.score), f"chrF|{metric.get_signature()}")


def oracle_latencies(instances: Iterable[Instance], needs: Sequence[Sequence[int]]) -> Figures:
    """Return the latencies of the oracle in words; `needs` is the oracle of `score`."""
    pairs = [(i.source_length, oracle_delays(needs[i.index])) for i in instances]
    best = [UnitDelays(delays, length, len(delays)).clipped() for length, delays in pairs]
    return latencies(best, METRICS, "u:word", "d:oracle")


def _by_convention(
    ordered: Sequence[Instance], convention: Convention, unit: str, quality: Figures
) -> Figures:
    """Return the figures of a convention in a unit."""
    rows = _rows(ordered, unit, convention.clipped)
    fields = convention.fields(unit, ordered[0].writing)
    figures = {**quality, **latencies(rows, convention.metrics, *fields)}
    if convention.degeneracy:
        written = [row for row in rows if row.delays]
        yaal = convention.metrics["YAAL"].values(*_tensors(written)) if written else []
        signature = "|".join([*fields, "eos:no", f"v:{__version__}"])
        sentences = [(row.delays, row.source_length) for row in written]
        for name, value in degeneracy(sentences, yaal).items():
            figures[name] = Score(value, f"{name}|{signature}")
    return {name: figures[name] for name in convention.figures}


def _computation_aware(ordered: Sequence[Instance]) -> ComputationAware | None:
    """Return latencies that include the computing time, over the measured sentences."""
    measured = [instance for instance in ordered if instance.elapsed]
    if not measured:
        return None
    rows = [UnitDelays(i.elapsed, i.source_length, i.reference_length) for i in measured]
    convention = CONVENTIONS["omnisteval"]  # the only scorer of such latency of text
    unit, *rest = convention.fields("word", ordered[0].writing)
    figures = latencies(rows, convention.metrics, unit, "d:ca", *rest)
    return ComputationAware(figures, len(measured))


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
    stood = [[min(place or last, last) for place in heads] for heads in instance.positions if heads]
    spans = [max(places) - min(places) for places in stood]
    return sum(spans) / len(spans) if spans else None


def sentence_dals(instances: Sequence[Instance], clipped: bool = True) -> list[float]:
    """Return DAL in words of each sentence, at least one; 0 where no word is written."""
    return METRICS["DAL"].values(*_tensors(_rows(instances, "word", clipped)))


def _attention_span(ordered: Sequence[Instance]) -> Score | None:
    """Return the mean attention span of the sentences whose head positions are known."""
    spans = [span for instance in ordered if (span := attention_span(instance)) is not None]
    signature = f"span|h:all|u:subword|eos:no|v:{__version__}"
    return Score(math.fsum(spans) / len(spans), signature) if spans else None


def _erasure(ordered: Sequence[Instance]) -> Score | None:
    """Return the normalised erasure of re-translation (Arivazhagan et al. 2020), over the corpus.

    The words that were taken back over all updates, for each word of the final texts.
    """
    revised = [(i.erased, i.prediction_length) for i in ordered if i.erased is not None]
    if not revised:
        return None
    erased, words = map(sum, zip(*revised, strict=True))
    unit, *_ = ordered[0].writing.fields("word")
    return Score(erased / words if words else None, f"NE|{unit}|v:{__version__}")


def _initial_delays(rows: Iterable[UnitDelays]) -> dict[int, int]:
    """Return the number of sentences by first delay (MILk, figure 7), smallest delay first."""
    return dict(sorted(Counter(int(row.delays[0]) for row in rows if row.delays).items()))


def latencies(rows: Iterable[UnitDelays], metrics: Mapping[str, Metric], *fields: str) -> Figures:
    """Return the means over the sentences that have delays, counted in float64."""
    written = [row for row in rows if row.delays]
    starts = range(0, len(written), _ROWS_AT_ONCE)
    batches = [_tensors(written[start : start + _ROWS_AT_ONCE]) for start in starts]
    scores = {}
    for name, metric in metrics.items():
        values = [value for batch in batches for value in metric.values(*batch)]
        defined = [value for value in values if not math.isnan(value)]
        mean = math.fsum(defined) / len(defined) if defined else None
        scores[name] = Score(mean, metric.signature(*fields))
    return scores


def _rows(ordered: Sequence[Instance], unit: str, clipped: bool = True) -> list[UnitDelays]:
    """Return the delays of all sentences in a unit."""
    rows = [UnitDelays(i.delays, i.source_length, i.reference_length) for i in ordered]
    if unit == "subword":
        lengths = [(i.subword_source_length, i.subword_reference_length) for i in ordered]
        rows = [UnitDelays(i.subword_delays, *n) for i, n in zip(ordered, lengths, strict=True)]
    return [row.clipped() for row in rows] if clipped else rows


def _tensors(rows: Sequence[UnitDelays]) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Return delays (B, T), padded with 0, lengths of source, hypothesis and reference, and ends.

    All but the delays are (B,).
    """
    source = torch.tensor([row.source_length for row in rows], dtype=torch.float64)
    target = torch.tensor([len(row.delays) for row in rows])
    reference = torch.tensor([row.reference_length for row in rows])
    columns = list(zip_longest(*(row.delays for row in rows), fillvalue=0.0))
    delays = torch.tensor(columns, dtype=torch.float64).view(-1, len(rows)).T.contiguous()
    end = torch.tensor([row.end for row in rows], dtype=torch.float64)
    return delays, source, target, reference, end
