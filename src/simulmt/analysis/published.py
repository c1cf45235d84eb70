"""Published figures that a report compares with: CSV files such as those in `experiments`."""

from __future__ import annotations

import csv
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from simulmt.analysis.curve import Point, Series
from simulmt.errors import UserError

_NOT_STATED = "not stated"


@dataclass(frozen=True)
class Published:
    """One published point.

    Attributes:
        system: The system's name.
        bleu: Its BLEU.
        latencies: The published latencies by name.
        kind: The kind of BLEU, in words.
        unit: The unit of latency: `word`, `subword`, or `not stated`.
        source: The file.
    """

    system: str
    bleu: float
    latencies: Mapping[str, float]
    kind: str
    unit: str
    source: str


def read_published(name: str, latencies: Sequence[str], folder: Path) -> list[Published]:
    """Return the points of a file.

    Args:
        name: A CSV file, or its name in the folder: `milk/table5`.
        latencies: Columns to look for, besides `system`, `BLEU`, `BLEU_kind` and `latency_unit`.
        folder: The folder of published figures, `experiments`.

    Raises:
        UserError: there is no such file, or it is damaged.
    """
    path = Path(name) if name.endswith(".csv") else folder / f"{name}.csv"
    if not path.is_file():
        files = sorted(folder.glob("*/*.csv"))
        known = [p for p in files if p.read_bytes().startswith(b"system,")]
        names = ", ".join(p.relative_to(folder).with_suffix("").as_posix() for p in known)
        raise UserError(
            f"published={name}: there is no file {path}; give a CSV file"
            + (f", or one of {names}" if names else "")
        )
    try:
        with path.open(newline="", encoding="utf-8") as file:
            return [_parse(row, latencies, path.stem) for row in csv.DictReader(file)]
    except (OSError, ValueError, KeyError, TypeError, csv.Error) as error:
        raise UserError(
            f"published={name}: {path} cannot be read ({type(error).__name__}: {error}); it needs "
            "the columns system and BLEU, and one for each latency, with numbers"
        ) from None


def published_series(
    points: Sequence[Published], latency: str, unit: str
) -> tuple[list[Series], list[str]]:
    """Return the lines of the points with a latency in a unit; their names tell the kind of BLEU.

    Args:
        points: Points from any number of files.
        latency: Such as DAL.
        unit: `word` or `subword`.

    Returns:
        The lines, and a note for each system whose latency has another unit.
    """
    lines: dict[str, list[Point]] = {}
    notes: dict[str, None] = {}
    for point in points:
        if latency not in point.latencies:
            continue
        if point.unit != unit:
            notes[f"{point.source}, {point.system}: its unit of latency is {point.unit}"] = None
            continue
        name = f"{point.system}, published ({point.kind} BLEU)"
        lines.setdefault(name, []).append(Point(point.latencies[latency], point.bleu))
    return [Series(name, line, published=True) for name, line in lines.items()], list(notes)


def _parse(row: Mapping[str, str], latencies: Sequence[str], source: str) -> Published:
    values = {name: float(row[name]) for name in latencies if row.get(name)}
    bleu = float(row["BLEU"])
    if not all(map(math.isfinite, (bleu, *values.values()))):
        raise ValueError(f"{row['system']}: a figure is not finite")
    kind, unit = (row.get(key) or _NOT_STATED for key in ("BLEU_kind", "latency_unit"))
    return Published(row["system"], bleu, values, kind, unit, source)
