"""Results as web pages with figures.

Pages are made from the HTML templates of this folder; Jinja escapes all text.
"""

import io
import re
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape
from matplotlib import rc_context
from matplotlib.figure import Figure

from simulmt.analysis.figures.panels import lettering

REMEDY = "choose another folder: to=DIR"
TEMPLATES = Environment(
    loader=FileSystemLoader(Path(__file__).parent),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)
TEMPLATES.globals |= {"asdict": asdict, "zip": zip}


def inline_svg(figure: Figure, name: str, role: str, titles: Mapping[str, str]) -> Markup:
    """Return the figure as an element of the page, the same text for the same figure.

    Its text stays text. A colour #rrggbb becomes `var(--rrggbb, #rrggbb)`, which a dark page sets.

    Args:
        figure: The figure.
        name: The prefix of all ids, unique within the page.
        role: The attributes that tell readers who do not see the figure what it is.
        titles: The text of each link, by address.
    """
    file = io.BytesIO()
    with lettering(), rc_context({"svg.hashsalt": "simulmt", "svg.fonttype": "none"}):
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
    return Markup(text.replace("<svg ", f'<svg class="drawn" {role} ', 1))
