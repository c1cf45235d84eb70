"""How well the sentence boundaries that a translator wrote divide the source."""

from collections.abc import Iterable, Sequence

from simulmt import __version__
from simulmt.decoding.stream_instance import StreamInstance
from simulmt.scoring.reference_document import Segment
from simulmt.scoring.scores import Figures, Score


def boundary_scores(pairs: Iterable[tuple[Sequence[Segment], StreamInstance]]) -> Figures:
    """Return precision, recall and F1 of the split positions in per cent, and how late they are.

    A split is right if it is exactly where a segment of the reference ends in the source; the ends
    of documents do not count. `read_beyond` is the mean number of source words read beyond that end
    when the boundary was written, over the right splits.

    Args:
        pairs: The segments of each document in source words, and its translation.
    """
    gold, found, beyond = 0, 0, list[float]()
    for segments, instance in pairs:
        inside = {segment.start for segment in segments} - {0, segments[-1].end}
        splits = {b.split: b.read for b in reversed(instance.boundaries)}
        splits = {split: r for split, r in splits.items() if 0 < split < segments[-1].end}
        gold, found = gold + len(inside), found + len(splits)
        beyond += [read - split for split, read in splits.items() if split in inside]
    right = len(beyond)
    shares = {"precision": (right, found), "recall": (right, gold), "F1": (2 * right, found + gold)}
    values = {name: 100 * part / whole if whole else None for name, (part, whole) in shares.items()}
    values["read_beyond"] = sum(beyond) / right if right else None
    return {name: Score(v, f"{name}|u:word|ends:no|v:{__version__}") for name, v in values.items()}
