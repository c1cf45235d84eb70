"""A table of scores for the terminal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.table import Column, Table
from rich.text import Text

from simulmt.scoring.conventions import CONVENTIONS

_WORD = ("AL", "DAL", "AP", "LAAL")
_DIGITS = {"AP": 3}
_PAPER = ("BLEU", "chrF", *_WORD, "DAL subword")


def score_table(
    rows: Mapping[str, Mapping[str, Any]],
    left: Sequence[tuple[Column, Sequence[str]]] = (),
    convention: str = "paper",
) -> Table:
    """One row per name: quality, latency in words, DAL in subwords; or a convention's figures.

    Under a row comes its oracle, the latency of the reference written as early as its word
    alignment allows; one oracle that all rows share comes once, at the end. It is known in words
    alone. The caption carries the signatures if all rows have the same.

    Args:
        rows: What `scoring.score.score` returned, by name.
        left: Columns before the figures, with a cell for each row; the names if there are none.
        convention: A name of `CONVENTIONS`; `paper` shows more than its own.
    """
    left = left or [(Column("", overflow="fold"), list(rows))]
    chosen = CONVENTIONS[convention]
    names = _PAPER if convention == "paper" else chosen.figures
    heads = [*(head for head, _ in left), *(Column(name, justify="right") for name in names)]
    caption = _caption(rows, convention)
    table = Table(*heads, caption=caption, caption_justify="left")
    blank = [""] * (len(left) - 1)
    with_oracle = [s["oracle"]["word"] for s in rows.values() if "oracle" in s]
    with_oracle = with_oracle if chosen.unit == "word" else []
    shared = len(with_oracle) > 0 and all(oracle == with_oracle[0] for oracle in with_oracle)
    cells = zip(*(column for _, column in left), strict=True)
    for scores, (name, *about) in zip(rows.values(), cells, strict=True):
        table.add_row(*map(Text, (name, *about)), *_cells(_figures(scores, convention), names))
        if with_oracle and "oracle" in scores and not shared:
            oracle = _cells(scores["oracle"]["word"], names)
            table.add_row(Text(f"{name}, oracle"), *blank, *oracle)
    if shared:
        table.add_section()
        table.add_row("oracle", *blank, *_cells(with_oracle[0], names))
    return table


def _figures(scores: Mapping[str, Any], convention: str) -> Mapping[str, Any]:
    """The figures of a row by the name of their column, and their signatures."""
    if convention != "paper":
        figures: Mapping[str, Any] = scores["conventions"][convention]
        return figures
    quality, latency = scores["quality"], scores["latency"]
    signatures = {"BLEU": f"BLEU|{quality['signature']}", **latency["word"]["signature"]}
    return {
        "BLEU": quality["BLEU"],
        "chrF": quality["chrF"],
        **{name: latency["word"][name] for name in _WORD},
        "DAL subword": latency["subword"]["DAL"],
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


def _caption(rows: Mapping[str, Mapping[str, Any]], convention: str) -> Text:
    lines = [
        f"{name}: {scores['empty']} of {scores['sentences']} predictions are empty, not in latency"
        for name, scores in rows.items()
        if scores["empty"]
    ]
    found = [_figures(scores, convention)["signature"] for scores in rows.values()]
    signatures = {f"{signature['BLEU']}\n{signature['AL']}" for signature in found}
    return Text("\n".join(lines + list(signatures) * (len(signatures) == 1)))
