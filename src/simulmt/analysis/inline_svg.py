"""A figure as an SVG inside a page: its text is text, and the page may change its colours."""

from __future__ import annotations

import io
import re
from collections.abc import Mapping

from markupsafe import Markup, escape
from matplotlib import rc_context
from matplotlib.figure import Figure

NO_TITLES: Mapping[str, str] = {}


def inline_svg(
    figure: Figure, name: str, about: str = "", titles: Mapping[str, str] = NO_TITLES
) -> Markup:
    """Return the figure as an element of a page, the same text for the same figure.

    A colour #rrggbb becomes `var(--rrggbb, #rrggbb)`, which a dark page can set.

    Args:
        figure: The figure.
        name: The prefix of all ids, unique within the page.
        about: A description for readers who do not see the figure; empty for an ornament.
        titles: The text of each link, by address.
    """
    file = io.BytesIO()
    with rc_context({"svg.hashsalt": "simulmt", "svg.fonttype": "none"}):
        figure.savefig(file, format="svg", metadata={"Date": None})
    text = file.getvalue().decode("utf-8")
    text = text[text.index("<svg") :].strip()
    for tag in ("metadata", "style"):  # a style would be for the whole page
        text = re.sub(rf"\s*<{tag}\b.*?</{tag}>", "", text, flags=re.DOTALL)
    text = re.sub(r'\bid="', f'id="{name}-', text)
    text = text.replace("url(#", f"url(#{name}-")
    text = re.sub(r'xlink:href="#(?!run-)', f'xlink:href="#{name}-', text)
    text = re.sub(r"\b(fill|stroke): #([0-9a-f]{6})", r"\1: var(--\2, #\2)", text)
    for address, title in titles.items():  # the table has the same links for the keyboard
        link = f'<a tabindex="-1" xlink:href="{address}"><title>{escape(title)}</title>'
        text = text.replace(f'<a xlink:href="{address}">', link)
    role = f'role="img" aria-label="{escape(about)}"' if about else 'aria-hidden="true"'
    return Markup(text.replace("<svg ", f'<svg class="drawn" {role} ', 1))
