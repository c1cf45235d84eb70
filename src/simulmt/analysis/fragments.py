"""Pieces of a web page. All text is escaped here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any


class Markup(str):
    """What is HTML already."""

    __slots__ = ()


def text(value: Any) -> Markup:
    """Escaped; a dash for None."""
    if isinstance(value, Markup):
        return value
    return Markup("–" if value is None else escape(str(value)))


def number(value: float | None, form: str = ".2f") -> Markup:
    """A figure, marked so that a column of them is sorted by value; a dash for None."""
    shown = "–" if value is None else format(value, form)
    return Markup(f'<data value="{"" if value is None else repr(value)}">{shown}</data>')


def link(address: str, name: str) -> Markup:
    """To a place on the page."""
    return Markup(f'<a href="{escape(address)}">{escape(name)}</a>')


def table(heads: Sequence[str], rows: Sequence[Sequence[Any]], sortable: bool = False) -> Markup:
    """A table; the first cell of each row names it.

    Args:
        heads: Of the columns.
        rows: Cells, as many as there are columns.
        sortable: Whether a click on a head sorts the rows.
    """
    lines, kinds = [], [' class="t"'] * len(heads)
    for row in rows:
        first, *cells = map(text, row)
        kinds = ["", *(_kind(cell) for cell in cells)]
        tds = (f"<td{kind}>{cell}</td>" for kind, cell in zip(kinds[1:], cells, strict=True))
        lines.append(f'<tr><th scope="row">{first}</th>{"".join(tds)}</tr>')
    names = [escape(head) for head in heads]
    if sortable:
        names = [f'<button type="button">{name}</button>' for name in names]
    head = "".join(f'<th scope="col"{k}>{n}</th>' for k, n in zip(kinds, names, strict=True))
    kind = ' class="sortable"' if sortable else ""
    return Markup(
        f'<div class="wide" tabindex="0"><table{kind}><thead><tr>{head}</tr></thead>'
        f"<tbody>{''.join(lines)}</tbody></table></div>"
    )


def pairs(items: Mapping[str, Any]) -> Markup:
    """Names and what they stand for."""
    lines = (f"<dt>{escape(name)}</dt><dd>{text(value)}</dd>" for name, value in items.items())
    return Markup(f"<dl>{''.join(lines)}</dl>")


def details(summary: Markup, inside: str, name: str = "") -> Markup:
    """What opens on a click."""
    place = f' id="{escape(name)}"' if name else ""
    return Markup(f"<details{place}><summary>{summary}</summary>{inside}</details>")


def section(title: str, *parts: str) -> Markup:
    """A heading and what stands below it."""
    return Markup(f"<section><h2>{escape(title)}</h2>{''.join(parts)}</section>")


def paragraph(value: str) -> Markup:
    """A line of text."""
    return Markup(f"<p>{text(value)}</p>")


def bullets(items: Sequence[str]) -> Markup:
    """A list."""
    return Markup(f"<ul>{''.join(f'<li>{text(item)}</li>' for item in items)}</ul>")


def _kind(cell: Markup) -> str:
    """Text begins where its column does, figures end there."""
    return "" if cell.startswith(("<data", "–")) else ' class="t"'
