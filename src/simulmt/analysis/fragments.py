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
    names = [f'<button type="button">{escape(h)}</button>' if sortable else escape(h)
             for h in heads]  # fmt: skip
    head = "".join(f'<th scope="col">{name}</th>' for name in names)
    lines = []
    for first, *rest in rows:
        cells = "".join(f"<td>{text(cell)}</td>" for cell in rest)
        lines.append(f'<tr><th scope="row">{text(first)}</th>{cells}</tr>')
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
