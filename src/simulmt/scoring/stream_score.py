"""Quality, latency and boundaries of translated documents, each score with its signature."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import NamedTuple, TypeAlias

import numpy as np

from simulmt.decoding.stream_instance import StreamInstance
from simulmt.scoring.boundaries import boundary_scores
from simulmt.scoring.conventions import STREAM_CONVENTIONS, Convention
from simulmt.scoring.moses import moses
from simulmt.scoring.reference_document import Segment
from simulmt.scoring.resegment import levenshtein, soft
from simulmt.scoring.score import UnitDelays, bleu, chrf, latency_scores
from simulmt.scoring.scores import Figures, Score
from simulmt.scoring.stream_latency import streaming_latency

Segmenter: TypeAlias = Callable[[Sequence[str], Sequence[str]], list[int]]
"""Returns the segment of each word of a translation, from the references of the segments."""


class Piece(NamedTuple):
    """A segment of the reference, and the words of the translation that belong to it.

    Attributes:
        text: The words.
        reference: The reference.
        delays: The delays of the words, from the start of the segment.
        elapsed: Their times, by `incremental`; none if they were not measured.
    """

    text: str
    reference: str
    delays: UnitDelays
    elapsed: UnitDelays


@dataclass(frozen=True)
class StreamScores:
    """The scores of translated documents.

    Attributes:
        figures: Scores by convention. Latencies with computing time end in `_ca`. Those of written
            boundaries are under `boundaries`.
        documents: The number of documents.
        segments: The number of segments of the references.
    """

    figures: Mapping[str, Figures]
    documents: int
    segments: int


def score_streams(
    pairs: Sequence[tuple[Sequence[Segment], StreamInstance]],
    conventions: Iterable[str] = tuple(STREAM_CONVENTIONS),
    unit: str = "word",
    s: float = 0.95,
    language: str | None = None,
) -> StreamScores:
    """Return the scores of translated documents.

    Args:
        pairs: The segments of each document with its translation, at least one.
        conventions: Names of `STREAM_CONVENTIONS`.
        unit: The unit of all times, `word` or `ms`. `streaming` and boundaries need words.
        s: As for `streaming_latency`.
        language: As for `moses`, which splits words for the soft segmenter.

    Raises:
        UserError: the Moses tokenizer is needed and cannot run.
    """
    chosen = {name: STREAM_CONVENTIONS[name] for name in conventions}
    needed = {convention.segmenter for convention in chosen.values()}
    with moses(language if "soft" in needed else None) as tokenize:
        known: dict[str, Segmenter] = {
            "levenshtein": levenshtein,
            "soft": partial(soft, tokenize=tokenize),
        }
        cut = {name: [resegment(*pair, known[name]) for pair in pairs] for name in needed}
    label = {"soft": f"soft|tok:{language or 'none'}"}
    figures = dict[str, Figures]()
    for name, each in chosen.items():
        fields = [f"seg:{label.get(each.segmenter, each.segmenter)}", *each.fields(unit)]
        figures[name] = _figures(cut[each.segmenter], each, fields, s)
    if unit == "word" and any(instance.boundaries for _, instance in pairs):
        figures["boundaries"] = boundary_scores(pairs)
    return StreamScores(figures, len(pairs), sum(len(segments) for segments, _ in pairs))


def resegment(
    segments: Sequence[Segment], instance: StreamInstance, segmenter: Segmenter
) -> list[Piece]:
    """Return the pieces of a translated document, one for each segment of the reference."""
    words, end = instance.prediction.split(), max(segment.end for segment in segments)
    places = segmenter(words, [segment.text for segment in segments])
    bounds = np.searchsorted(places, np.arange(len(segments) + 1)).tolist()
    times = (instance.delays, incremental(instance.elapsed, instance.delays))
    pieces = []
    for (text, start, stop), (a, b) in zip(segments, pairwise(bounds), strict=True):
        about = (stop - start, len(text.split(" ")), end - start)
        rows = [UnitDelays([time - start for time in each[a:b]], *about) for each in times]
        pieces.append(Piece(" ".join(words[a:b]), text, *rows))
    return pieces


def incremental(elapsed: Sequence[float], delays: Sequence[float]) -> list[float]:
    r"""Return times that hold only the computing since the word before.

    .. math::

        e'_1 = e_1, \quad e'_i = \max(e_i - e_{i-1} + d_{i-1}, e'_{i-1})

    The computing for a long document adds up, so :math:`e_i` falls further and further behind. This
    is OmniSTEval's `--fix_simuleval_emission_ca`.
    """
    times = [*elapsed[:1]]
    for (before, later), delay in zip(pairwise(elapsed), delays, strict=False):
        times.append(max(later - before + delay, times[-1]))
    return times


def _figures(
    documents: Sequence[Sequence[Piece]], convention: Convention, fields: Sequence[str], s: float
) -> Figures:
    """Return the scores by a convention; a latency without a segment to count it on is None."""
    pieces = [piece for document in documents for piece in document]
    texts, references = [piece.text for piece in pieces], [piece.reference for piece in pieces]
    quality = {"BLEU": bleu(texts, references), "chrF": chrf(texts, references)}
    found = {n: Score(q.value, f"{q.signature}|{fields[0]}") for n, q in quality.items()}
    if convention.streaming:
        rows = [streaming_latency([p.delays for p in document], s) for document in documents]
        for name, metric in convention.metrics.items():
            mean = math.fsum(row[name] for row in rows) / len(rows)
            found[name] = Score(mean, metric.signature(*fields, f"s:{s:g}", "mean:document"))
        return found
    kept = [piece for piece in pieces if piece.delays.source_length]
    found |= latency_scores([piece.delays for piece in kept], convention.metrics, *fields)
    if sum(len(p.elapsed.delays) for p in pieces) < sum(len(p.delays.delays) for p in pieces):
        return found  # some times were not measured
    aware = latency_scores([p.elapsed for p in kept], convention.metrics, "d:ca|fix:yes", *fields)
    return found | {f"{name}_ca": score for name, score in aware.items()}
