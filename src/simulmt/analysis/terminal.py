"""The tables that a report prints, besides the scores."""

from __future__ import annotations

from collections.abc import Sequence

from rich.table import Column, Table
from rich.text import Text

from simulmt.analysis.names import row_names
from simulmt.analysis.runs import Row, Run
from simulmt.analysis.selection import with_empty_ranges_together


def left_columns(runs: Sequence[Run], training: bool) -> list[tuple[Column, list[str]]]:
    """Return the columns of the table before the scores.

    Args:
        runs: At least one.
        training: Whether to show size and training speed.
    """
    models = list(dict.fromkeys(run.model for run in runs))
    names: dict[str, str] = {}
    for model in models:  # names without the model, which has a column
        group = [run for run in runs if run.model == model]
        names |= {run.folder: name for run, name in zip(group, row_names(group), strict=True)}
    columns = [(Column("", overflow="fold"), [names[run.folder] for run in runs])]
    if len(models) > 1:
        columns.append((Column("model"), [run.model for run in runs]))
    if training:
        sizes: list[float | None] = [run.training.parameters for run in runs]
        speeds = [run.training.tokens_per_second for run in runs]
        for title, values in (("parameters", sizes), ("training\ntokens/s", speeds)):
            cells = ["–" if value is None else f"{value:,.0f}" for value in values]
            columns.append((Column(title, justify="right"), cells))
    return columns


def selection_table(rows: Sequence[Row]) -> Table:
    """Return the table of the run of each range (`simulmt.analysis.selection`)."""
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
