"""A table of scores for the terminal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rich.table import Column, Table
from rich.text import Text

from simulmt.scoring.conventions import CONVENTIONS, UNITS
from simulmt.scoring.scores import Figures, Scores

_PAPER = ("AL", "DAL", "AP", "LAAL")
_DIGITS = {"AP": 3}


def score_table(
    rows: Mapping[str, Scores],
    left: Sequence[tuple[Column, Sequence[str]]] = (),
    convention: str = "paper",
    unit: str = "word",
) -> Table:
    """Return a table with a row for each name: quality and latency in a unit.

    Under a row comes its oracle, the latency of the reference written as early as its word
    alignment allows; one oracle that all rows share comes once, at the end. The oracle is known in
    words alone. The caption has the signatures if they are the same in all rows.

    Args:
        rows: Scores by name.
        left: Columns before the figures, with a cell for each row; the names if there are none.
        convention: A name of `CONVENTIONS`; `paper` also shows DAL in the other unit.
        unit: `word` or `subword`, in `paper`; the others have but one.
    """
    left = left or [(Column("", overflow="fold"), list(rows))]
    names: Sequence[str] = CONVENTIONS[convention].figures
    if convention == "paper":
        names = ("BLEU", "chrF", *_PAPER, f"DAL {_other(unit)}")
    else:
        unit = CONVENTIONS[convention].units[0]
    heads = [*(head for head, _ in left), *(Column(name, justify="right") for name in names)]
    figures = [_figures(scores, convention, unit) for scores in rows.values()]
    table = Table(*heads, caption=_caption(rows, figures, unit), caption_justify="left")
    blank = [""] * (len(left) - 1)
    oracles = [scores.oracle.get(unit, {}) for scores in rows.values()]
    known = [oracle for oracle in oracles if oracle]
    shared = len(known) > 0 and all(oracle == known[0] for oracle in known)
    cells = zip(*(column for _, column in left), strict=True)
    for (name, *about), own, oracle in zip(cells, figures, oracles, strict=True):
        table.add_row(*map(Text, (name, *about)), *_cells(own, names))
        if oracle and not shared:
            table.add_row(Text(f"{name}, oracle"), *blank, *_cells(oracle, names))
    if shared:
        table.add_section()
        table.add_row("oracle", *blank, *_cells(known[0], names))
    return table


def _other(unit: str) -> str:
    return next(other for other in UNITS if other != unit)


def _figures(scores: Scores, convention: str, unit: str) -> Figures:
    """Return the figures of a row by the names of their columns."""
    figures = dict(scores[convention, unit])
    if convention == "paper":
        figures[f"DAL {_other(unit)}"] = scores[convention, _other(unit)]["DAL"]
    return figures


def _cells(figures: Figures, names: Sequence[str]) -> list[str]:
    """Return the cells: empty without such a figure, a dash if there is nothing to count it on."""
    return [figures[name].form(_DIGITS.get(name, 2)) if name in figures else "" for name in names]


def _caption(rows: Mapping[str, Scores], figures: Sequence[Figures], unit: str) -> Text:
    lines = [] if unit == "word" else ["latency in subwords"]
    lines += [
        f"{name}: {scores.empty} of {scores.sentences} predictions are empty, not in latency"
        for name, scores in rows.items()
        if scores.empty
    ]
    signatures = {f"{own['BLEU'].signature}\n{own['AL'].signature}" for own in figures}
    return Text("\n".join(lines + list(signatures) * (len(signatures) == 1)))
