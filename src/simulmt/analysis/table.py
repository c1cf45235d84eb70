"""A table of scores for the terminal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.table import Column, Table
from rich.text import Text

_WORD = ("AL", "DAL", "AP", "LAAL")
_DIGITS = {"AP": 3}


def score_table(
    rows: Mapping[str, Mapping[str, Any]],
    left: Sequence[tuple[Column, Sequence[str]]] = (),
) -> Table:
    """One row per name: quality, latency in words, DAL in subwords.

    Under a row comes its oracle, the latency of the reference written as early as its word
    alignment allows; one oracle that all rows share comes once, at the end. The caption carries
    the signatures if all rows have the same.

    Args:
        rows: What `simulmt.scoring.score` returned, by name.
        left: Columns before the figures, with a cell for each row; the names if there are none.
    """
    left = left or [(Column("", overflow="fold"), list(rows))]
    figures = [Column(name, justify="right") for name in ("BLEU", "chrF", *_WORD, "DAL subword")]
    heads = [head for head, _ in left]
    table = Table(*heads, *figures, caption=_caption(rows), caption_justify="left")
    blank = [""] * (len(left) - 1)
    oracles = [scores["oracle"]["word"] for scores in rows.values() if "oracle" in scores]
    shared = len(oracles) > 0 and all(oracle == oracles[0] for oracle in oracles)
    cells = zip(*(column for _, column in left), strict=True)
    for scores, (name, *about) in zip(rows.values(), cells, strict=True):
        quality, latency = scores["quality"], scores["latency"]
        values = [_number(quality["BLEU"]), _number(quality["chrF"]), *_words(latency["word"])]
        values.append(_number(latency["subword"]["DAL"]))
        table.add_row(*map(Text, (name, *about)), *values)
        if "oracle" in scores and not shared:
            oracle = _words(scores["oracle"]["word"])
            table.add_row(Text(f"{name}, oracle"), *blank, "", "", *oracle, "")
    if shared:
        table.add_section()
        table.add_row("oracle", *blank, "", "", *_words(oracles[0]), "")
    return table


def _words(latency: Mapping[str, Any]) -> list[str]:
    return [_number(latency[name], _DIGITS.get(name, 2)) for name in _WORD]


def _number(value: float | None, digits: int = 2) -> str:
    return "–" if value is None else f"{value:.{digits}f}"


def _caption(rows: Mapping[str, Mapping[str, Any]]) -> Text:
    lines = [
        f"{name}: {scores['empty']} of {scores['sentences']} predictions are empty, not in latency"
        for name, scores in rows.items()
        if scores["empty"]
    ]
    signatures = {
        f"BLEU|{scores['quality']['signature']}\n{scores['latency']['word']['signature']['AL']}"
        for scores in rows.values()
    }
    return Text("\n".join(lines + list(signatures) * (len(signatures) == 1)))
