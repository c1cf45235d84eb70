"""Reads `metrics.csv`, which a kill, a full disk or an editor may have corrupted."""

import re
from collections.abc import Mapping
from pathlib import Path

from simulmt.files.run_directory import METRICS
from simulmt.system.console import warn


def read_metrics(folder: Path) -> list[dict[str, str]]:
    """Return the complete rows of the metrics; [] without a file.

    A last row that a kill has truncated is left out. So are corrupt rows, with a warning.
    """
    path = folder / METRICS
    try:
        text = path.read_bytes().decode("utf-8", "replace")
    except OSError:
        return []
    lines = text.replace("\r", "").split("\n")[:-1]
    names, *rows = [line.split(",") for line in lines or [""]]
    if "step" not in names:
        warn(f"{path} is corrupt: it has no header, so all of its rows are left out")
        return []
    table = [dict(zip(names, row, strict=False)) for row in rows if len(row) == len(names)]
    complete = [row for row in table if _is_complete(row)]
    if corrupt := len(rows) - len(complete):
        warn(f"{path} is corrupt: {corrupt} of its {len(rows)} rows are left out")
    return complete


def read_columns(folder: Path, *names: str) -> list[tuple[float, ...]]:
    """Return the named metrics of each row that has all of them, in the order of training."""
    rows = [[row.get(name) for name in names] for row in read_metrics(folder)]
    return [tuple(map(float, filter(None, row))) for row in rows if all(row)]


def _is_complete(row: Mapping[str, str]) -> bool:
    """Return True if a row has the number of an update, and only numbers and empty values."""
    try:
        _ = [float(value) for value in row.values() if value]
    except ValueError:
        return False
    return re.fullmatch("[0-9]{1,15}", row.get("step", "")) is not None
