"""Quality, latency and boundaries of translated documents, each score with its signature."""

import math
import unicodedata
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from itertools import accumulate, chain, pairwise
from typing import NamedTuple, TypeAlias

import numpy as np

from simulmt import __version__
from simulmt.decoding.stream_instance import StreamInstance
from simulmt.decoding.writing import WORDS, Writing, unspaced
from simulmt.scoring.conventions import CASED, STREAM_CONVENTIONS, Convention
from simulmt.scoring.moses import moses
from simulmt.scoring.reference_document import Segment
from simulmt.scoring.resegment import levenshtein, soft
from simulmt.scoring.score import UnitDelays, bleu, chrf, latencies
from simulmt.scoring.scores import Figures, Score
from simulmt.scoring.stream_latency import streaming_latency

Segmenter: TypeAlias = Callable[[Sequence[str], Sequence[str]], list[int]]
"""Returns the segment of each word of a translation, from the references of the segments."""
Pair: TypeAlias = tuple[Sequence[Segment], StreamInstance]
"""The segments of a document, with spaces between all words, and its translation."""


class Realigned(NamedTuple):
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


def score_streams(
    pairs: Sequence[Pair],
    conventions: Iterable[str] = tuple(STREAM_CONVENTIONS),
    unit: str = "word",
    s: float = 0.95,
    language: str | None = None,
    writing: Writing = WORDS,
) -> dict[str, Figures]:
    """Return the scores of translated documents by convention, and those of their `boundaries`.

    Latencies with computing time end in `_ca`. They are there if all times were measured.

    Args:
        pairs: At least one.
        conventions: Names of `STREAM_CONVENTIONS`.
        unit: The unit of all times, `word` or `ms`. Boundaries need words.
        s: As for `streaming_latency`.
        language: As for `moses`, which splits words for the soft segmenter.
        writing: What a word is, on either side.

    Raises:
        UserError: the Moses tokenizer cannot run.
    """
    chosen = {name: STREAM_CONVENTIONS[name] for name in conventions}
    kinds = {convention.soft for convention in chosen.values()}
    with moses(language if True in kinds else None) as tokenize:
        segmenters: list[Segmenter] = [
            levenshtein,
            partial(soft, tokenize=tokenize, exact=writing.target),
        ]
        cut = {kind: [resegment(pair, segmenters[kind]) for pair in pairs] for kind in kinds}
    labels = ("seg:levenshtein", f"seg:soft-{language}" if language else "seg:soft")
    quality = {kind: _quality(cut[kind], labels[kind], writing) for kind in kinds}
    aware = ("d:ca", "fix:no" if all(instance.by_step for _, instance in pairs) else "fix:yes")
    figures = dict[str, Figures]()
    for name, convention in chosen.items():
        fields = [labels[convention.soft], *convention.fields(unit, writing)]
        latency = _latency(cut[convention.soft], convention, fields, aware, s)
        figures[name] = {**quality[convention.soft], **latency}
    if unit == "word" and any(instance.boundaries for _, instance in pairs):
        figures["boundaries"] = boundary_scores(pairs, "char" if writing.source else unit)
    return figures


def resegment(pair: Pair, segmenter: Segmenter) -> list[Realigned]:
    """Return the pieces of a translated document, one for each segment of the reference."""
    segments, instance = pair
    words, end = instance.words, max(segment.end for segment in segments)
    places = segmenter(words, [segment.text for segment in segments])
    bounds = np.searchsorted(places, np.arange(len(segments) + 1)).tolist()
    elapsed: Sequence[float] = instance.elapsed
    if not any(elapsed):  # zeros: not measured
        elapsed = ()
    elif not instance.by_step:
        elapsed = incremental(elapsed, instance.delays)
    times, pieces = (instance.delays, elapsed), []
    for (text, start, length), (a, b) in zip(segments, pairwise(bounds), strict=True):
        about = (length, len(text.split(" ")), end - start)
        rows = [UnitDelays([time - start for time in each[a:b]], *about) for each in times]
        pieces.append(Realigned(" ".join(words[a:b]), text, *rows))
    return pieces


def incremental(elapsed: Sequence[float], delays: Sequence[float]) -> list[float]:
    r"""Return times that hold only the computing since the word before.

    .. math::

        e'_1 = e_1, \quad e'_i = \max(e_i - e_{i-1} + d_{i-1}, e'_{i-1})

    Computing time adds up over a long document, so :math:`e_i - d_i` keeps growing. This is
    OmniSTEval's `--fix_simuleval_emission_ca`.
    """
    later = (e - before + d for (before, e), d in zip(pairwise(elapsed), delays, strict=False))
    return [*accumulate(chain(elapsed[:1], later), max)]


def _quality(documents: Sequence[Sequence[Realigned]], label: str, writing: Writing) -> Figures:
    """Return BLEU and chrF of the segments in NFC."""

    def written(text: str) -> str:
        return unicodedata.normalize("NFC", unspaced(text, writing.target))

    pieces = [piece for document in documents for piece in document]
    texts = [written(piece.text) for piece in pieces]
    references = [written(piece.reference) for piece in pieces]
    quality = bleu(texts, references, CASED.of(writing))
    found = {"BLEU": quality, "chrF": chrf(texts, references)}
    return {name: Score(each.value, f"{each.signature}|{label}") for name, each in found.items()}


def _latency(
    documents: Sequence[Sequence[Realigned]],
    convention: Convention,
    fields: Sequence[str],
    aware: Sequence[str],
    s: float,
) -> Figures:
    """Return the latencies of a convention; one without a segment to count it on is None.

    `aware` has the signature's fields for latencies with computing time.
    """
    found = dict[str, Score]()
    if convention.streaming:
        values = [streaming_latency([piece.delays for piece in each], s) for each in documents]
        for name, metric in convention.metrics.items():
            signature = metric.signature(*fields, f"s:{s:g}", "mean:document")
            found[name] = Score(math.fsum(v[name] for v in values) / len(values), signature)
        return found
    delays = [piece.delays for document in documents for piece in document]
    elapsed = [piece.elapsed for document in documents for piece in document]
    measured = all(len(a.delays) == len(b.delays) for a, b in zip(delays, elapsed, strict=True))
    kinds = ("", (), delays), ("_ca", aware, elapsed)
    for end, form, rows in kinds[: 1 + measured]:
        kept = [row for row in rows if row.source_length]
        scores = latencies(kept, convention.metrics, *form, *fields)
        found |= {name + end: score for name, score in scores.items()}
    return found


def boundary_scores(pairs: Iterable[Pair], unit: str = "word") -> Figures:
    """Return precision, recall and F1 of the split positions in per cent, and how late they are.

    A split is right if it is exactly where a segment of the reference ends in the source; the ends
    of documents do not count. `read_beyond` is the mean number of source words read beyond that end
    when the boundary was written, over the right splits.

    Args:
        pairs: In source words.
        unit: What a source word is in signatures: `word` or `char`.
    """
    gold, found, beyond = 0, 0, list[float]()
    for segments, instance in pairs:
        end, written = segments[-1].end, reversed(instance.boundaries)
        inside = {segment.start for segment in segments} - {0, end}
        splits = {split: read for _, split, read in written if 0 < split < end}
        gold, found = gold + len(inside), found + len(splits)
        beyond += [read - split for split, read in splits.items() if split in inside]
    right = len(beyond)
    shares = {"precision": (right, found), "recall": (right, gold), "F1": (2 * right, found + gold)}
    values = {name: 100 * part / whole if whole else None for name, (part, whole) in shares.items()}
    values["read_beyond"] = sum(beyond) / right if right else None
    return {
        name: Score(v, f"{name}|u:{unit}|ends:no|v:{__version__}") for name, v in values.items()
    }
