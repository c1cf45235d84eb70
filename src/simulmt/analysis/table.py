"""A table of scores for the terminal."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.table import Table
from rich.text import Text

_WORD = ("AL", "DAL", "AP", "LAAL")
_DIGITS = {"AP": 3}


def score_table(rows: Mapping[str, Mapping[str, Any]]) -> Table:
    """One row per name: quality, latency in words, DAL in subwords.

    Under a row comes its oracle, the latency of the reference written as early as its word
    alignment allows; one oracle that all rows share comes once, at the end. The caption carries
    the signatures if all rows have the same.

    Args:
        rows: What `simulmt.scoring.score` returned, by name.
    """
    table = Table(caption=_caption(rows), caption_justify="left")
    table.add_column("", overflow="fold")
    for name in ("BLEU", "chrF", *_WORD, "DAL subword"):
        table.add_column(name, justify="right")
    oracles = [scores["oracle"]["word"] for scores in rows.values() if "oracle" in scores]
    shared = len(oracles) > 0 and all(oracle == oracles[0] for oracle in oracles)
    for name, scores in rows.items():
        quality, latency = scores["quality"], scores["latency"]
        figures = [_number(quality["BLEU"]), _number(quality["chrF"]), *_words(latency["word"])]
        table.add_row(Text(name), *figures, _number(latency["subword"]["DAL"]))
        if "oracle" in scores and not shared:
            table.add_row(Text(f"{name}, oracle"), "", "", *_words(scores["oracle"]["word"]), "")
    if shared:
        table.add_section()
        table.add_row("oracle", "", "", *_words(oracles[0]), "")
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
