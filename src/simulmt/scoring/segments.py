"""The scores that another program gave to each sentence of a decoding, kept beside its log."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from simulmt.decoding.instance import Instance, texts_of
from simulmt.errors import UserError
from simulmt.files.run_directory import SEGMENTS
from simulmt.scoring.scores import Score
from simulmt.system.console import warn
from simulmt.system.disk import read_record

DIGITS = 4
"""The decimals of such scores, which are often below 1."""


@dataclass(frozen=True)
class SegmentScores:
    """The scores of a decoding by one metric.

    Attributes:
        score: The mean over the sentences, and its signature.
        sha256: The `digest` of the scored text.
        segments: The score of each sentence, in the order of the indices.
    """

    score: Score
    sha256: str
    segments: tuple[float, ...]


def texts(log: Sequence[Instance]) -> dict[str, str]:
    """Return what programs read, by placeholder: a line for each sentence, and all as JSON lines.

    Line ends within a text become spaces, so that all programs count the same lines.
    """
    lines: dict[str, list[str]] = {"source": [], "output": [], "reference": [], "jsonl": []}
    for instance in log:
        source, reference, output = (" ".join(text.splitlines()) for text in texts_of(instance))
        row = {"source": source, "hypothesis": output, "reference": reference}  # MetricX's keys
        each = (source, output, reference, json.dumps(row, ensure_ascii=False))
        for kept, line in zip(lines.values(), each, strict=True):
            kept.append(line)
    return {name: "".join(f"{line}\n" for line in each) for name, each in lines.items()}


def digest(log: Sequence[Instance]) -> str:
    """Return the SHA-256 of what programs read."""
    return sha256(texts(log)["jsonl"].encode()).hexdigest()


def read_segments(path: Path, log: Sequence[Instance]) -> SegmentScores | None:
    """Return the scores in a file; None, with a warning, if they are corrupt or of other text."""
    try:
        found = read_record(path, SegmentScores)
    except UserError as error:
        warn(f"{error}")
        return None
    if (found.sha256, len(found.segments)) != (digest(log), len(log)):
        warn(f"{path} scores other text and is ignored; `simulmt score` replaces it")
        return None
    return found


def scored_by(folder: Path, log: Sequence[Instance]) -> dict[str, SegmentScores]:
    """Return the scores of a decoding by metric; `log` has its sentences by index."""
    paths = sorted((folder / SEGMENTS).glob("*.json"))
    return {path.stem: found for path in paths if (found := read_segments(path, log))}
