"""Mechanisms on models, one run for each pair, as a table: terminal, Markdown, CSV."""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.table import Column, Table
from rich.text import Text

from simulmt.analysis.runs import find_runs
from simulmt.run_directory import SCORES

FIGURES = {
    "BLEU": ("BLEU", ".1f"),
    "AL": ("AL_word", ".2f"),
    "DAL": ("DAL_word", ".2f"),
    "AP": ("AP_word", ".2f"),
    "parameters": ("parameters", ",.0f"),
    "training tokens/s": ("training_tokens_per_s", ",.0f"),
}
"""The table's columns: where `Run.row` has them, and how they are written."""


def make_rows(
    names: Sequence[str], runs: Path, notes: Mapping[str, tuple[str, str]]
) -> list[dict[str, Any]]:
    """What there is to say of each pair.

    Args:
        names: of the pairs, which are also their directories: `MODEL/MECHANISM`.
        runs: where these are.
        notes: outcome and message of those that could not be trained.

    Returns:
        Model, mechanism, outcome, message, and the figures of a finished run.
    """
    found = {run.folder: run for run in find_runs(runs, decodings=False).runs}
    rows = []
    for name in names:
        row: dict[str, Any] = dict(zip(("model", "mechanism"), name.split("/"), strict=True))
        if name in found and name not in notes:
            row |= {
                "outcome": "trained",
                "message": "",
                **found[name].row(),
                **found[name].cost,
                **row,
            }
        else:
            lost = ("failed", f"no scores that can be read ({name}/{SCORES})")
            row["outcome"], row["message"] = notes.get(name, lost)
        rows.append(row)
    return rows


def make_cells(rows: Sequence[Mapping[str, Any]]) -> tuple[list[list[str]], list[str]]:
    """The table as text, a model named in its first row only; and its footnotes."""
    notes = list(dict.fromkeys(row["message"] for row in rows if row["message"]))
    lines, above = [], None
    for row in rows:
        values = [(row.get(key), form) for key, form in FIGURES.values()]
        cells = ["–" if value is None else format(value, form) for value, form in values]
        if row["message"]:
            cells[0] = f"{row['outcome']} [{notes.index(row['message']) + 1}]"
        lines.append(["" if row["model"] == above else row["model"], row["mechanism"], *cells])
        above = row["model"]
    return lines, [f"[{i}] {note}" for i, note in enumerate(notes, 1)]


def write_files(rows: Sequence[Mapping[str, Any]], runs: Path, settings: str) -> None:
    """`zoo.csv` in full precision, and `zoo.md`."""
    with (runs / "zoo.csv").open("w", encoding="utf-8", newline="") as file:
        keys = dict.fromkeys(key for row in rows for key in row)
        writer = csv.DictWriter(file, [*keys], restval="", lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    cells, notes = make_cells(rows)
    table = [["model", "mechanism", *FIGURES], ["---", "---", *["---:"] * len(FIGURES)], *cells]
    text = "\n".join(f"| {' | '.join(line)} |" for line in table)
    text = "\n\n".join([text, *notes, settings]) + "\n"
    (runs / "zoo.md").write_text(text, encoding="utf-8")


def make_table(rows: Sequence[Mapping[str, Any]], settings: str) -> Table:
    """The table for the terminal, a section for each model."""
    cells, notes = make_cells(rows)
    figures = [Column(name, justify="right", no_wrap=True) for name in FIGURES]
    caption = Text("\n".join([*notes, settings]))
    table = Table("model", "mechanism", *figures, caption=caption, caption_justify="left")
    for line in cells:
        if line[0]:
            table.add_section()
        table.add_row(*map(Text, line))
    return table
