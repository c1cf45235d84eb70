"""The oracle of documents: latency of a perfect translator, not told where sentences end."""

from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import TypeAlias

from simulmt.data.corpus import Split
from simulmt.data.recognised import without_marks
from simulmt.decoding.stream_instance import StreamInstance
from simulmt.scoring.scores import Figures, Score
from simulmt.scoring.stream_decoder import Part, document, segments_of, source_of
from simulmt.scoring.stream_score import score_streams

Ends: TypeAlias = Callable[[Sequence[str]], set[int]]


def oracle_scores(split: Split) -> dict[str, Figures]:
    """Return the latencies of the oracle under its name; nothing if the oracle is unknown."""
    if split.links is None or split.ends is None:
        return {}
    streams = [oracle_stream(split, name, split.ends) for name in split.documents]
    scores = score_streams([(segments_of(split, s.source), s) for s in streams], ["streaming"])
    found = {**scores["streaming"], **scores["boundaries"]}
    kept = {name: found[name] for name in ("AP", "AL", "DAL", "read_beyond")}
    return {"oracle": {n: Score(s.value, f"{s.signature}|d:oracle") for n, s in kept.items()}}


def oracle_stream(split: Split, name: str, ends: Ends) -> StreamInstance:
    """Return the reference of a document with the smallest delays.

    A word waits for the source words that it needs, until it is certain that its sentence has not
    ended before them, and for every word before it. The last word of a sentence, its full stop, and
    the boundary wait until it is certain that the sentence has ended: if the source has marks, at
    its end, else often in the next sentence. The end of the document is told.

    Args:
        split: documents whose word alignment is known.
        name: the name of the document.
        ends: as in `Split.ends`.
    """
    words, parts, start, last = source_of(split, name).split(), list[Part](), 0, 0
    for place in split.documents[name]:
        source, needs = split.sources[place], [*(split.needs or [])[place][:-1], -1]
        length, rest, bare = len(source.split()), words[start:], source == without_marks(source)
        certain = certain_at(rest, length, ends) if bare else [*range(length + 1), length]
        delays = [*accumulate((start + certain[n] for n in needs), max, initial=last)][1:]
        start, last = start + length, delays[-1]
        parts.append(Part(split.targets[place].split(), delays, length, last))
    return document(name, " ".join(words), parts)


def certain_at(words: Sequence[str], length: int, ends: Ends) -> list[int]:
    """Return how much of a document without marks tells where its first sentence ends.

    Args:
        words: the document, or the rest of it, from the beginning of a sentence.
        length: the number of words of the sentence.
        ends: as in `Split.ends`.

    Returns:
        For n from 0 to `length`, the least number of words, at least n, that show that the sentence
        has at least n words; and then the least number that show that it has no more.
    """
    found, read = list[int](), 0
    while True:
        possible = ends(words[:read]) if read < len(words) else {length}
        while len(found) <= min(read, *possible):
            found.append(read)
        if possible == {length}:
            return [*found, read]
        read += 1
