"""Reads `metrics.csv`, whose last row a kill may have truncated."""

import csv
from pathlib import Path

from simulmt.files.run_directory import METRICS


def read_metrics(folder: Path) -> list[dict[str, str]]:
    """Return the complete rows of the metrics; [] without a file."""
    path = folder / METRICS
    if not path.exists():
        return []
    *lines, _ = path.read_text("utf-8").split("\n")  # what follows the last line end is no row
    return [*csv.DictReader(lines)]


def read_columns(folder: Path, *names: str) -> list[tuple[float, ...]]:
    """Return the named metrics of each row that has all of them, in the order of training."""
    rows = [[row.get(name) for name in names] for row in read_metrics(folder)]
    return [tuple(map(float, filter(None, row))) for row in rows if all(row)]
