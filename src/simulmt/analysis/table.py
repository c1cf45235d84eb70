"""A table of scores for the terminal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.table import Column, Table
from rich.text import Text

from simulmt.scoring.conventions import CONVENTIONS

_PAPER = ("AL", "DAL", "AP", "LAAL")
_OTHER = {"word": "subword", "subword": "word"}
_DIGITS = {"AP": 3}


def score_table(
    rows: Mapping[str, Mapping[str, Any]],
    left: Sequence[tuple[Column, Sequence[str]]] = (),
    convention: str = "paper",
    unit: str = "word",
) -> Table:
    """One row per name: quality, latency in a unit, DAL in the other; or a convention's figures.

    Under a row comes its oracle, the latency of the reference written as early as its word
    alignment allows; one oracle that all rows share comes once, at the end. It is known in words
    alone. The caption carries the signatures if all rows have the same.

    Args:
        rows: What `scoring.score.score` returned, by name.
        left: Columns before the figures, with a cell for each row; the names if there are none.
        convention: A name of `CONVENTIONS`; `paper` shows more than its own.
        unit: `word` or `subword`, in `paper`; the others have but one.
    """
    left = left or [(Column("", overflow="fold"), list(rows))]
    names: Sequence[str] = ("BLEU", "chrF", *_PAPER, f"DAL {_OTHER[unit]}")
    if convention != "paper":
        names, unit = CONVENTIONS[convention].figures, CONVENTIONS[convention].unit
    heads = [*(head for head, _ in left), *(Column(name, justify="right") for name in names)]
    figures = [_figures(scores, convention, unit) for scores in rows.values()]
    table = Table(*heads, caption=_caption(rows, figures, unit), caption_justify="left")
    blank = [""] * (len(left) - 1)
    oracles = [scores.get("oracle", {}).get(unit) for scores in rows.values()]
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


def _figures(scores: Mapping[str, Any], convention: str, unit: str) -> Mapping[str, Any]:
    """The figures of a row by the name of their column, and their signatures."""
    if convention != "paper":
        figures: Mapping[str, Any] = scores["conventions"][convention]
        return figures
    quality, latency, other = scores["quality"], scores["latency"], _OTHER[unit]
    signatures = {"BLEU": f"BLEU|{quality['signature']}", **latency[unit]["signature"]}
    return {
        "BLEU": quality["BLEU"],
        "chrF": quality["chrF"],
        **{name: latency[unit][name] for name in _PAPER},
        f"DAL {other}": latency[other]["DAL"],
        "signature": signatures,
    }


def _cells(figures: Mapping[str, Any], names: Sequence[str]) -> list[str]:
    """Empty where there is no such figure, a dash where there is nothing to count it on."""
    digits = [_DIGITS.get(name, 2) for name in names]
    return [
        _number(figures[name], places) if name in figures else ""
        for name, places in zip(names, digits, strict=True)
    ]


def _number(value: float | None, digits: int) -> str:
    return "–" if value is None else f"{value:.{digits}f}"


def _caption(
    rows: Mapping[str, Mapping[str, Any]], figures: Sequence[Mapping[str, Any]], unit: str
) -> Text:
    lines = [] if unit == "word" else ["latency in subwords"]
    lines += [
        f"{name}: {scores['empty']} of {scores['sentences']} predictions are empty, not in latency"
        for name, scores in rows.items()
        if scores["empty"]
    ]
    signatures = {f"{own['signature']['BLEU']}\n{own['signature']['AL']}" for own in figures}
    return Text("\n".join(lines + list(signatures) * (len(signatures) == 1)))
