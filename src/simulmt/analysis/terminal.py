"""What a report prints, besides the scores."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.table import Column, Table
from rich.text import Text

from simulmt.analysis.names import row_names
from simulmt.analysis.runs import Run
from simulmt.analysis.selection import with_empty_ranges_together


def left_columns(runs: Sequence[Run], training: bool) -> list[tuple[Column, list[str]]]:
    """What the table says of each run before its scores.

    Args:
        runs: At least one.
        training: Whether to show size and training speed.
    """
    models = list(dict.fromkeys(run.model for run in runs))
    names: dict[str, str] = {}
    for model in models:  # each for itself, as the model has a column
        group = [run for run in runs if run.model == model]
        names |= {run.folder: name for run, name in zip(group, row_names(group), strict=True)}
    columns = [(Column("", overflow="fold"), [names[run.folder] for run in runs])]
    if len(models) > 1:
        columns.append((Column("model"), [run.model for run in runs]))
    if training:
        for title, values in (
            ("parameters", [run.parameters for run in runs]),
            ("training\ntokens/s", [run.cost["training_tokens_per_s"] for run in runs]),
        ):
            cells = ["–" if value is None else f"{value:,.0f}" for value in values]
            columns.append((Column(title, justify="right"), cells))
    return columns


def selection_table(rows: Sequence[Mapping[str, Any]]) -> Table:
    """The run of each range (`simulmt.analysis.selection`)."""
    figures = [key for key in rows[0] if key.startswith(("dev_", "test_"))]
    heads = [Column(key.replace("_", " "), justify="right") for key in figures]
    table = Table("system", "range", "run", Column("update", justify="right"), *heads)
    for row in with_empty_ranges_together(rows):
        if row["run"] is None:
            table.add_row(row["system"], row["range"], "no run")
            continue
        cells = [f"{row[key]:.2f}" for key in figures]
        table.add_row(row["system"], row["range"], Text(row["run"]), str(row["step"]), *cells)
    return table
