"""Reads `metrics.csv`, which a kill, a full disk or an editor may have damaged."""

import re
import sys
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from simulmt.files.run_directory import METRICS


def read_metrics(folder: Path) -> list[dict[str, str]]:
    """Return the whole rows of the metrics; [] without a file.

    A last row that a kill has cut is left out. So are damaged rows, with a warning.
    """
    path = folder / METRICS
    try:
        text = path.read_bytes().decode("utf-8", "replace")
    except OSError:
        return []
    lines = text.replace("\r", "").split("\n")[:-1]
    names, *rows = [line.split(",") for line in lines or ["step"]]
    table = [dict(zip(names, row, strict=False)) for row in rows if len(row) == len(names)]
    whole = [row for row in table if _is_whole(row)]
    if damaged := len(rows) - len(whole):
        _warn(f"{path} is damaged: {damaged} of its {len(rows)} rows are left out")
    return whole


def read_columns(folder: Path, *names: str) -> list[tuple[float, ...]]:
    """Return the named metrics of each row that has all of them, in the order of training."""
    rows = [[row.get(name) for name in names] for row in read_metrics(folder)]
    return [tuple(map(float, filter(None, row))) for row in rows if all(row)]


def _is_whole(row: Mapping[str, str]) -> bool:
    """Return whether a row of the metrics has the number of an update, and numbers or nothing."""
    try:
        _ = [float(value) for value in row.values() if value]
    except ValueError:
        return False
    return re.fullmatch("[0-9]{1,15}", row.get("step", "")) is not None


@cache  # once for each file
def _warn(text: str) -> None:
    print(f"warning: {text}", file=sys.stderr)
